"""Exact effects in the paraphrases of a cell."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import (
    add_model_arguments,
    add_operand_arguments,
    add_train_arguments,
    load_model,
    model_provenance,
    named_values,
    operand_range,
)

HELP = "exact indirect effects in paraphrases of a cell's train prompts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_operand_arguments(parser)
    add_train_arguments(parser)
    parser.add_argument("--operator", required=True, help="the cell's operator")
    parser.add_argument(
        "--variant",
        action="append",
        required=True,
        metavar="OPERATOR=TEXT",
        help="a paraphrase; of other operators too where corrupt partners come from them",
    )
    parser.add_argument("--candidates", type=int, default=2000, help="neurons per layer that are patched")
    parser.add_argument("--output", type=Path, required=True, help="effects by variant and prompt (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import torch

    from form_invariance.problems.prompts import check_template, render
    from form_invariance.stages.cells import read_train_pairs
    from form_invariance.stages.paraphrases.effects import variant_tensors
    from form_invariance.tables.files import write_tensors

    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments, model.config.n_layers)
    templates: dict[str, list[str]] = {}
    for item in arguments.variant:
        ((operator, text),) = named_values([item], "--variant", "TEXT").items()
        own = templates.setdefault(operator, [])
        check_template(tokenizer, text, f"variants.{operator}[{len(own)}]", operand_range(arguments))
        own.append(text)
    train, draws = read_train_pairs(arguments.dataset, arguments.corrupt_table)
    train = train.assign(operator=arguments.operator)
    tensors: dict[str, torch.Tensor] = {}
    for number in range(len(templates[arguments.operator])):
        found = variant_tensors(model, tokenizer, train, draws[0], templates, number, first, arguments.candidates)
        tensors |= {f"{number + 1}.{name}": tensor for name, tensor in found.items()}
    one = train.iloc[0]
    wordings = [one["prompt"], *(render(text, one["a"], one["b"]) for text in templates[arguments.operator])]
    provenance = {
        **model_provenance(arguments),
        "variants": templates[arguments.operator],
        "final_tokens": [tokens[-1] for tokens in tokenizer.encode_each(wordings)],
        "d_mlp": model.config.d_mlp,
        "first_late_layer": first,
        "candidates": arguments.candidates,
        "prompts": len(train),
    }
    write_tensors(tensors, arguments.output, "variant_effects", provenance)
