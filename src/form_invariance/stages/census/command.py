"""Census of one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.options import (
    add_model_arguments,
    add_operand_arguments,
    load_model,
    model_provenance,
    operand_range,
)

HELP = "run the model on a sample of the operand pool"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    parser.add_argument("--template", required=True, help="prompt with the fields {a} and {b}")
    parser.add_argument("--operator", required=True, help="the operator's name")
    parser.add_argument("--expression", required=True, help="the operator's expression, such as 'a + b'")
    add_operand_arguments(parser)
    parser.add_argument("--pairs", type=int, help="pairs in the uniform sample; default: the whole pool")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--output", type=Path, required=True, help="census table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.census.compute import take_census
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.tables.files import write_table

    limits = operand_range(arguments)
    model, tokenizer = load_model(arguments)
    table = take_census(
        model,
        tokenizer,
        arguments.template,
        arguments.operator,
        arguments.expression,
        limits,
        arguments.pairs,
        arguments.seed,
    )
    provenance = {
        **model_provenance(arguments),
        "template": arguments.template,
        "operator": arguments.operator,
        "expression": arguments.expression,
        "operands": vars(limits),
        "pairs": arguments.pairs,
        "seed": arguments.seed,
    }
    write_table(table, arguments.output, CENSUS, provenance)
