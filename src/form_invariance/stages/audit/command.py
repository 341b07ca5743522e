"""Audit of the two-stage ranking of a model."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required

HELP = "recall of the exact top-k among the first stage's candidates, where every neuron was patched"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--rankings", "FORMAT/OPERATOR=FILE", "ranking tables of all cells")
    add_required(parser, int, width="neurons of a layer")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(parser, output="audit table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.audit.compute import audit
    from form_invariance.stages.audit.table import AUDIT
    from form_invariance.stages.ranking.table import RANKING
    from form_invariance.tables.files import read_tables, write_table

    rankings = read_tables(arguments.rankings, RANKING)
    table = audit(rankings, arguments.width, arguments.k)
    write_table(table[list(AUDIT.columns)], arguments.output, AUDIT, {"width": arguments.width})
