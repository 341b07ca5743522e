"""Mean activation of every neuron and head, by position from the last token, for the ablations."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_keyed, add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_keyed(parser, "--census", "OPERATOR=FILE", "census tables of one format")
    parser.add_argument(
        "--exclude", type=Path, nargs="*", default=[], help="datasets whose operand pairs are left out"
    )
    add_required(parser, int, prompts="prompts in all, shared by the operators")
    add_options(parser, "--seed", output="mean cache (safetensors)")
    add_keyed(parser, "--template-outputs", "OPERATOR=FILE", "those of one template each", required=False)


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.mean_cache import compute as mean_cache
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.tables.files import read_table, read_tables, write_tensors

    censuses = read_tables(arguments.census, CENSUS)
    outputs = arguments.template_outputs
    if unknown := set(outputs) - set(censuses):
        raise UserError(f"--template-outputs: {min(unknown)} is not one of the operators of --census")
    excluded = [read_table(path, DATASET) for path in arguments.exclude]
    chosen = mean_cache.choose_prompts(censuses, excluded, arguments.prompts, arguments.seed)
    model, tokenizer = load_model(arguments)
    sums = {name: mean_cache.activation_sums(model, tokenizer, prompts) for name, prompts in chosen.items()}
    for path, operators in ((arguments.output, list(chosen)), *((path, [name]) for name, path in outputs.items())):
        cache = mean_cache.means_of([sums[name] for name in operators], model.config.n_layers)
        provenance = {
            **model_provenance(arguments, "seed"),
            "prompts": {name: len(chosen[name]) for name in operators},
            "positions": len(cache.count),
        }
        write_tensors(mean_cache.to_tensors(cache), path, "mean_cache", provenance)
