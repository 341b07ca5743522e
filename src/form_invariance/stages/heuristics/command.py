"""Heuristic scores of activation maps from anywhere."""

import argparse
from pathlib import Path

from form_invariance.stages.heuristics.names import KINDS

HELP = "score activation maps against the heuristics"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    score = actions.add_parser("score", help="score every neuron of a table of activation maps")
    mode = score.add_mutually_exclusive_group()
    mode.add_argument("--reference", action="store_true", help="the published scores, faults included")
    mode.add_argument("--strict", action="store_true", help="the mended scores, with labels (the default)")
    score.add_argument("--operator", required=True, choices=KINDS, help="which operator the maps are of")
    score.add_argument(
        "--activations",
        type=Path,
        required=True,
        help="Parquet table: op1, op2, result, then one column a neuron (K map; and KV map, if none is given)",
    )
    score.add_argument(
        "--result-activations", type=Path, help="the same form, for the result heuristics (KV maps)"
    )
    score.add_argument("--max-operand", type=int, required=True, help="operands are below it")
    score.add_argument("--threshold", type=float, default=0.6, help="share beyond chance that a label needs")
    score.add_argument("--output", type=Path, required=True, help="table of scores")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import numpy as np

    from form_invariance.errors import UserError
    from form_invariance.stages.heuristics import maps, published, strict
    from form_invariance.stages.heuristics.pairs import LARGEST_ANSWER
    from form_invariance.stages.heuristics.table import PUBLISHED_SCORES, STRICT_SCORES
    from form_invariance.tables.files import write_table

    if arguments.max_operand > LARGEST_ANSWER + 1:
        raise UserError(
            f"--max-operand: {arguments.max_operand} is too large; operands must be in 0..{LARGEST_ANSWER}, so "
            f"give at most {LARGEST_ANSWER + 1}"
        )
    if not 0 < arguments.threshold <= 1:
        raise UserError(f"--threshold: {arguments.threshold} must be above 0 and at most 1")
    grid, operand_maps = maps.read_maps(arguments.activations, arguments.operator, arguments.max_operand)
    result_maps = operand_maps
    if arguments.result_activations:
        other, result_maps = maps.read_maps(
            arguments.result_activations, arguments.operator, arguments.max_operand
        )
        same = np.array_equal(other.a, grid.a) and np.array_equal(other.b, grid.b)
        if result_maps.shape != operand_maps.shape or not same:
            raise UserError(
                f"{arguments.result_activations} must have the same pairs and neurons as {arguments.activations}"
            )
    provenance = {"operator": arguments.operator, "max_operand": arguments.max_operand}
    if arguments.reference:
        maps.check_whole(arguments.activations, grid)
        table = published.score(operand_maps, result_maps, grid)
        write_table(table, arguments.output, PUBLISHED_SCORES, {**provenance, "mode": "reference"})
    else:
        table = strict.score(operand_maps, result_maps, grid, arguments.threshold)
        provenance["threshold"] = arguments.threshold
        write_table(table, arguments.output, STRICT_SCORES, {**provenance, "mode": "strict"})
