"""The main figure."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths

HELP = "draw the main figure: all models side by side"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--overlap", nargs="+", required=True, metavar="MODEL/OPERATOR=FILE")
    parser.add_argument("--reliability", nargs="+", required=True, metavar="MODEL/OPERATOR=FILE")
    parser.add_argument("--interventions", nargs="+", required=True, metavar="MODEL/FORMAT/OPERATOR=FILE")
    parser.add_argument("--transfer", nargs="+", required=True, metavar="MODEL/OPERATOR/DIRECTION=FILE")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.interventions.table import INTERVENTIONS
    from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
    from form_invariance.stages.summary import figure as summary
    from form_invariance.stages.transfer.table import TRANSFER
    from form_invariance.tables.files import read_tables

    figure = summary.draw(
        read_tables(keyed_paths(arguments.overlap, "--overlap", 2), OVERLAP),
        read_tables(keyed_paths(arguments.reliability, "--reliability", 2), RELIABILITY),
        read_tables(keyed_paths(arguments.interventions, "--interventions", 3), INTERVENTIONS),
        read_tables(keyed_paths(arguments.transfer, "--transfer", 3), TRANSFER),
    )
    style.save(figure, arguments.output)
