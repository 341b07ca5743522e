"""Figure of the circuits' overlap."""

import argparse
from pathlib import Path

from form_invariance.stages.options import named_paths

HELP = "draw the overlap of the formats' circuits over k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--overlap", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--reliability", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.overlap import figure as jaccard
    from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
    from form_invariance.tables.files import read_tables

    overlaps = read_tables(named_paths(arguments.overlap, "--overlap"), OVERLAP)
    reliabilities = read_tables(named_paths(arguments.reliability, "--reliability"), RELIABILITY)
    style.save(jaccard.draw(overlaps, reliabilities, arguments.title), arguments.output)
