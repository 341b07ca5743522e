"""Figures of keep-only and knockout."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths

HELP = "draw faithfulness under keep-only or knockout over k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--intervention", required=True, choices=["keep_only", "knockout"])
    parser.add_argument("--tables", nargs="+", required=True, metavar="FORMAT/OPERATOR=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.interventions import figure as interventions
    from form_invariance.stages.interventions.table import INTERVENTIONS
    from form_invariance.tables.files import read_tables

    cells = read_tables(keyed_paths(arguments.tables, "--tables", 2), INTERVENTIONS)
    figure = interventions.draw(
        {(name, operator): table for (name, operator), table in cells.items()},
        arguments.intervention,
        arguments.title,
    )
    style.save(figure, arguments.output)
