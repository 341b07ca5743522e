"""Figure of the paraphrases."""

import argparse
from pathlib import Path

from form_invariance.stages.options import named_paths

HELP = "draw the overlap of the circuits of two wordings over k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tables", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.paraphrases import figure as variants
    from form_invariance.stages.paraphrases.table import VARIANTS
    from form_invariance.tables.files import read_tables

    tables = read_tables(named_paths(arguments.tables, "--tables"), VARIANTS)
    style.save(variants.draw(tables, arguments.title), arguments.output)
