"""Figure of the attention heads."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths, named_paths

HELP = "draw the overlap of the formats' best attention heads, and which they are"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--heads", nargs="+", required=True, metavar="FORMAT/OPERATOR=FILE", help="heads tables")
    parser.add_argument("--overlap", nargs="+", required=True, metavar="OPERATOR=FILE", help="head overlap tables")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.heads import figure as heads
    from form_invariance.stages.heads.table import HEAD_OVERLAP, HEADS
    from form_invariance.tables.files import read_tables

    tables = read_tables(keyed_paths(arguments.heads, "--heads", 2), HEADS)
    overlaps = read_tables(named_paths(arguments.overlap, "--overlap"), HEAD_OVERLAP)
    by_cell = {(name, operator): table for (name, operator), table in tables.items()}
    style.save(heads.draw(by_cell, overlaps, arguments.title), arguments.output)
