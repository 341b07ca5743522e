"""Figure of the transfer."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths

HELP = "draw the recovery by transfer over k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--tables", nargs="+", required=True, metavar="OPERATOR/DIRECTION=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.transfer import figure as transfer
    from form_invariance.stages.transfer.table import TRANSFER
    from form_invariance.tables.files import read_tables

    tables = read_tables(keyed_paths(arguments.tables, "--tables", 2), TRANSFER)
    figure = transfer.draw({(one, other): table for (one, other), table in tables.items()}, arguments.title)
    style.save(figure, arguments.output)
