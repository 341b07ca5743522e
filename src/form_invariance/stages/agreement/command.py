"""Agreement of the formats' heuristic families for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, named_paths, settings

HELP = "test whether the shared neurons carry the same heuristic families in every format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--operator", "--circuit", "--k", "--seed")
    parser.add_argument(
        "--heuristics", nargs="+", required=True, metavar="FORMAT=FILE", help="heuristics tables of every format"
    )
    parser.add_argument("--permutations", type=int, required=True, help="permutations of the null")
    parser.add_argument("--output", type=Path, required=True, help="agreement table")
    parser.add_argument("--labelled-output", type=Path, required=True, help="table of labelled neurons")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.agreement.compute import operator_tables
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.circuit.table import CIRCUIT, neurons_of
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.tables.files import read_table, read_tables, write_table

    tables = read_tables(named_paths(arguments.heuristics, "--heuristics"), HEURISTICS)
    shared = neurons_of(read_table(arguments.circuit, CIRCUIT), arguments.k)
    found, labelled = operator_tables(tables, shared, arguments.permutations, arguments.seed, arguments.operator)
    provenance = settings(arguments, "operator", "k", "permutations", "seed")
    write_table(labelled, arguments.labelled_output, LABELLED, provenance)
    write_table(found, arguments.output, AGREEMENT, provenance)
