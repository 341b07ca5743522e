"""Agreement of the formats' heuristic families for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import named_paths

HELP = "test whether the shared neurons carry the same heuristic families in every format"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--operator", required=True, help="the operator's name, for the seeded permutations")
    parser.add_argument(
        "--heuristics", nargs="+", required=True, metavar="FORMAT=FILE", help="heuristics tables of every format"
    )
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--k", type=int, required=True, help="circuit size whose neurons were classified")
    parser.add_argument("--permutations", type=int, default=10_000, help="permutations of the null")
    parser.add_argument("--seed", type=int, default=0, help="seed of the permutations")
    parser.add_argument("--output", type=Path, required=True, help="agreement table")
    parser.add_argument("--labelled-output", type=Path, required=True, help="table of labelled neurons")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.agreement import compute as agreement
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.tables.files import read_table, read_tables, write_table

    tables = read_tables(named_paths(arguments.heuristics, "--heuristics"), HEURISTICS)
    circuit = read_table(arguments.circuit, CIRCUIT)
    shared = circuit[circuit["k"] == arguments.k].sort_values(["layer", "neuron"])
    found, labelled = agreement.operator_tables(
        tables, shared, arguments.permutations, arguments.seed, arguments.operator
    )
    provenance = {
        "operator": arguments.operator,
        "k": arguments.k,
        "permutations": arguments.permutations,
        "seed": arguments.seed,
    }
    write_table(labelled, arguments.labelled_output, LABELLED, provenance)
    write_table(found, arguments.output, AGREEMENT, provenance)
