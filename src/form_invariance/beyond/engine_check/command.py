"""The fast engine against TransformerLens."""

import sys
from pathlib import Path

from form_invariance.beyond.engine_check import compute
from form_invariance.beyond.engine_check.compute import fast_values
from form_invariance.beyond.engine_check.hooked import hooked_values
from form_invariance.beyond.engine_check.sample import CheckedPrompts, CheckedValues, build_samples
from form_invariance.beyond.engine_check.table import ENGINE_CHECK
from form_invariance.beyond.engine_check.transformer_lens_bridge import NotSupportedError, boot
from form_invariance.errors import UserError
from form_invariance.experiment.means import read_means
from form_invariance.experiment.model_options import device_of, dtype_of, folder_of, load_model
from form_invariance.experiment.options import Files, ModelOptions, OtherFiles, recorded
from form_invariance.stages.attribution.table import ATTRIBUTION
from form_invariance.stages.dataset.prompts import read_train
from form_invariance.tables.files import read_tables, write_table
from form_invariance.tables.keys import CellKey, by_key, common_keys, matching_cells
from form_invariance.tables.progress import track


def engine_check(
    *,
    model: ModelOptions,
    datasets: OtherFiles,
    corrupt_tables: OtherFiles,
    attributions: OtherFiles,
    format_mean_caches: Files,
    prompts: int,
    output: Path,
) -> None:
    """Compare the fast engine with TransformerLens hooks over whole sequences, for one model.

    Args:
        datasets: dataset table of each cell
        corrupt_tables: corrupt partners of each cell
        attributions: attribution table of each cell
        format_mean_caches: mean cache of each format
        prompts: train prompts of each cell
        output: engine check table
    """
    settings = recorded(locals())

    cells = matching_cells(datasets=datasets, corrupt_tables=corrupt_tables, attributions=attributions)
    samples, fast = _run_fast(model, cells, format_mean_caches, prompts)
    dtype, device = dtype_of(model.dtype), device_of(model.device)
    try:
        bridge = boot(folder_of(model), dtype, device)
    except NotSupportedError as error:
        print(f"the engine is not checked: {error}", file=sys.stderr)
        table = compute.not_compared(samples, model.dtype, str(error))
    else:
        tracked_samples = track(samples.items(), len(samples), "cells with TransformerLens")
        slow = {cell: hooked_values(bridge, sample) for cell, sample in tracked_samples}
        table = compute.compare(fast, slow, model.dtype)
        compute.require_exact(table, model.model, model.dtype)
    write_table(table, output, ENGINE_CHECK, {**settings, "device": device}, common_keys(*datasets))


def _run_fast(
    options: ModelOptions, cells: list[dict[tuple[str, str], Path]], format_mean_caches: Files, prompts: int
) -> tuple[dict[CellKey, CheckedPrompts], dict[CellKey, CheckedValues]]:
    """The samples, and the fast engine's values of each. On return the engine's weights are free again."""
    datasets, partners, attributions = cells
    means = by_key(format_mean_caches, "format")
    if means.keys() != {name for name, _ in datasets}:
        raise UserError("--format-mean-caches must have a file for each format of --datasets and no other")
    if prompts < 1:
        raise UserError("--prompts: must be at least 1")
    model, tokenizer = load_model(options)
    samples = build_samples(
        {cell: read_train(path, partners[cell], tokenizer, model.device) for cell, path in datasets.items()},
        read_tables(attributions, ATTRIBUTION),
        {name: read_means(path, model) for name, path in means.items()},
        tokenizer,
        prompts,
    )
    return samples, {cell: fast_values(model, sample) for cell, sample in samples.items()}
