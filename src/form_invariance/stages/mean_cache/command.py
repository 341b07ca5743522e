"""Means for the ablations."""

from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.experiment.means import to_tensors
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Files, ModelOptions, OtherFiles, Seed, recorded
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.mean_cache import compute
from form_invariance.tables.files import read_table, read_tables, write_tensors
from form_invariance.tables.keys import by_key, common_keys


def mean_cache(
    *,
    model: ModelOptions,
    censuses: Files,
    exclude: OtherFiles = (),
    prompts: int,
    seed: Seed,
    output: Path,
    template_outputs: Files = (),
) -> None:
    """Compute the mean activation of every neuron and head, by position from the last token.

    Args:
        censuses: census tables of one format
        exclude: datasets whose operand pairs are left out
        prompts: prompts in all, shared by the operators
        output: mean cache (safetensors)
        template_outputs: a mean cache of each census's template, in order
    """
    settings = recorded(locals())

    paths = by_key(censuses, "operator")
    if template_outputs and len(template_outputs) != len(paths):
        raise UserError(f"--template-outputs: give one file for each of the {len(paths)} tables of --censuses")
    excluded = [read_table(path, DATASET) for path in exclude]
    operator_prompts = compute.choose_prompts(read_tables(paths, CENSUS), excluded, prompts, seed)
    decoder, tokenizer = load_model(model)
    sums = {name: compute.activation_sums(decoder, tokenizer, texts) for name, texts in operator_prompts.items()}
    of_format = {name: value for name, value in common_keys(*censuses).items() if name != "operator"}
    written = [(output, list(operator_prompts), of_format)]
    written += [
        (path, [name], common_keys(paths[name]))
        for name, path in zip(operator_prompts, template_outputs, strict=False)
    ]
    for path, operators, keys in written:
        cache = compute.means_of([sums[name] for name in operators], decoder.config.n_layers)
        provenance = {
            **settings,
            "device": str(decoder.device),
            "prompts": {name: len(operator_prompts[name]) for name in operators},
            "positions": len(cache.count),
        }
        write_tensors(to_tensors(cache), path, "mean_cache", provenance, keys)
