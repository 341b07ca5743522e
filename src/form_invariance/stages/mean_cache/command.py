"""Mean activation of every neuron and head, by position from the last token, for the ablations."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_files, add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_files(parser, "--census", "census tables of one format")
    parser.add_argument(
        "--exclude", type=Path, nargs="*", default=[], help="datasets whose operand pairs are left out"
    )
    add_required(parser, int, prompts="prompts in all, shared by the operators")
    add_options(parser, "--seed", output="mean cache (safetensors)")
    outputs = "those of one template each, one for each census, in their order"
    add_files(parser, "--template-outputs", outputs, required=False)


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.mean_cache import compute as mean_cache
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.tables.files import read_table, read_tables, write_tensors
    from form_invariance.tables.keys import by_key, common_keys

    paths, outputs = by_key(arguments.census, "operator"), arguments.template_outputs
    if outputs and len(outputs) != len(paths):
        raise UserError(f"--template-outputs: give one file for each of the {len(paths)} tables of --census")
    censuses = read_tables(paths, CENSUS)
    keys = {name: common_keys(path) for name, path in paths.items()}
    of_format = {name: value for name, value in common_keys(*arguments.census).items() if name != "operator"}
    excluded = [read_table(path, DATASET) for path in arguments.exclude]
    chosen = mean_cache.choose_prompts(censuses, excluded, arguments.prompts, arguments.seed)
    model, tokenizer = load_model(arguments)
    sums = {name: mean_cache.activation_sums(model, tokenizer, prompts) for name, prompts in chosen.items()}
    written = [(arguments.output, list(chosen), of_format)]
    written += [(path, [name], keys[name]) for name, path in zip(chosen, outputs, strict=False)]
    for path, operators, own in written:
        cache = mean_cache.means_of([sums[name] for name in operators], model.config.n_layers)
        provenance = {
            **model_provenance(arguments, "seed"),
            "prompts": {name: len(chosen[name]) for name in operators},
            "positions": len(cache.count),
        }
        write_tensors(mean_cache.to_tensors(cache), path, "mean_cache", provenance, own)
