"""Exact indirect effects in paraphrases of a cell's train prompts."""

import argparse

from form_invariance.stages.options import add_options, add_run_arguments
from form_invariance.stages.task_options import add_task_arguments, task_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_task_arguments(parser)
    add_options(parser, "--operator", "--dataset", "--corrupt-table", "--candidates", "--ranking-method")
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="OPERATOR=TEXT",
        help="a paraphrase; of other operators too where corrupt partners come from them",
    )
    add_options(parser, output="effects by variant and prompt (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.problems.tasks import check_task
    from form_invariance.stages.dataset.pairs import read_train_pairs
    from form_invariance.stages.paraphrases import effects
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import write_tensors
    from form_invariance.tables.keyed import keyed_values

    run = load_run(arguments)
    task = task_of(arguments)
    templates: dict[str, list[str]] = {}
    for item in arguments.variant:
        (((operator,), text),) = keyed_values([item], "--variant", "OPERATOR=TEXT").items()
        variants = templates.setdefault(operator, [])
        check_task(task, run.tokenizer, text, f"variants.{operator}[{len(variants)}]")
        variants.append(text)
    train, draws = read_train_pairs(arguments.dataset, arguments.corrupt_table)
    train = train.assign(operator=arguments.operator)
    texts = templates.get(arguments.operator, [])
    how = arguments.candidates, arguments.ranking_method
    tensors = {
        f"{number + 1}.{name}": tensor
        for number in range(len(texts))
        for name, tensor in effects.variant_tensors(run, train, draws[0], templates, number, *how).items()
    }
    provenance = {
        **run_provenance(arguments, run, "candidates", "ranking_method"),
        "variants": texts,
        "final_tokens": effects.final_tokens(run.tokenizer, train, texts),
        "d_mlp": run.width,
        "prompts": len(train),
    }
    write_tensors(tensors, arguments.output, "paraphrase_effects", provenance)
