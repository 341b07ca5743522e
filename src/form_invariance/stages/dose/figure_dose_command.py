"""Figure of the dose of transfer."""

import argparse
from pathlib import Path

from form_invariance.stages.options import named_paths

HELP = "draw the recovery over the dose of transfer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tables", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.dose import figure as dose
    from form_invariance.stages.dose.table import DOSE
    from form_invariance.tables.files import read_tables

    tables = read_tables(named_paths(arguments.tables, "--tables"), DOSE)
    style.save(dose.draw(tables, arguments.title), arguments.output)
