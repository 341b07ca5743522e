"""Figures of the linear probes."""

import argparse
from pathlib import Path

from form_invariance.stages.options import named_paths

HELP = "draw the probes' accuracy by layer, and by layer and position"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--probes", nargs="+", required=True, metavar="FORMAT=FILE", help="each format's probe table"
    )
    parser.add_argument("--across", type=Path, required=True, help="probe table over all formats")
    parser.add_argument("--title", required=True, help="the model's name")
    parser.add_argument("--output", type=Path, nargs="+", required=True, help="by layer: .png .svg or .pdf")
    parser.add_argument("--positions-output", type=Path, nargs="+", required=True, help="by layer and position")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.drawing import style
    from form_invariance.stages.probe import figure as probe
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import read_table, read_tables

    tables = read_tables(named_paths(arguments.probes, "--probes"), PROBE)
    across = read_table(arguments.across, PROBE)
    style.save(probe.draw(tables, across, arguments.title), arguments.output)
    style.save(probe.draw_positions(tables, arguments.title), arguments.positions_output)
