"""Figure of the planted-circuit benchmark."""

import argparse
from pathlib import Path

HELP = "draw what the pipeline finds in models whose circuit was built by hand"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--table", type=Path, required=True, help="planted table")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.planted import figure as planted
    from form_invariance.stages.planted.table import PLANTED
    from form_invariance.tables.files import read_table

    style.save(planted.draw(read_table(arguments.table, PLANTED)), arguments.output)
