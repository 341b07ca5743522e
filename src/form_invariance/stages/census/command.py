"""Census of one cell: run the model on a sample of the operand pool."""

import argparse

from form_invariance.stages.options import add_model_arguments, add_options, add_required
from form_invariance.stages.task_options import add_task_arguments, task_of, task_provenance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_task_arguments(parser)
    add_required(parser, str, format="the format's name")
    add_options(parser, "--template", "--operator", "--seed", output="census table")
    parser.add_argument("--model-name", help="the model's name in the tables; default: --model")
    parser.add_argument("--pairs", type=int, help="problems in the uniform sample; default: the whole pool")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.compute import take_census
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.tables.files import write_table

    task = task_of(arguments)
    model, tokenizer = load_model(arguments)
    table = take_census(
        model,
        tokenizer,
        arguments.template,
        arguments.operator,
        task,
        arguments.pairs,
        arguments.seed,
    )
    provenance = model_provenance(arguments, "template", "operator", "pairs", "seed")
    keys = {
        "model": arguments.model_name or arguments.model,
        "format": arguments.format,
        "operator": arguments.operator,
    }
    write_table(table, arguments.output, CENSUS, {**provenance, **task_provenance(arguments)}, keys)
