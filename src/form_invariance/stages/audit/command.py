"""Audit of the two-stage ranking of a model."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths

HELP = "recall of the exact top-k among the first stage's candidates, where every neuron was patched"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rankings", nargs="+", required=True, metavar="FORMAT/OPERATOR=FILE")
    parser.add_argument("--width", type=int, required=True, help="neurons of a layer")
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")
    parser.add_argument("--output", type=Path, required=True, help="audit table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.audit.compute import audit
    from form_invariance.stages.audit.table import AUDIT
    from form_invariance.stages.ranking.table import RANKING
    from form_invariance.tables.files import read_tables, write_table

    rankings = read_tables(keyed_paths(arguments.rankings, "--rankings", 2), RANKING)
    table = audit(rankings, arguments.width, arguments.k)
    write_table(table[list(AUDIT.columns)], arguments.output, AUDIT, {"width": arguments.width})
