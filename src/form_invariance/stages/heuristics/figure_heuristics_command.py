"""Figure of the heuristic families."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths, named_paths

HELP = "draw the shared neurons' heuristic families in every format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--heuristics", nargs="+", required=True, metavar="FORMAT/OPERATOR=FILE")
    parser.add_argument("--agreement", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--labelled", nargs="+", required=True, metavar="OPERATOR=FILE")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="files, .png .svg or .pdf")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.heuristics import figure as heuristics
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.tables.files import read_tables

    cells = read_tables(keyed_paths(arguments.heuristics, "--heuristics", 2), HEURISTICS)
    agreements = read_tables(named_paths(arguments.agreement, "--agreement"), AGREEMENT)
    labelled = read_tables(named_paths(arguments.labelled, "--labelled"), LABELLED)
    figure = heuristics.draw(cells, agreements, labelled, arguments.title)  # type: ignore[arg-type]
    style.save(figure, arguments.output)
