"""Compare the fast engine with TransformerLens hooks over whole sequences, for one model."""

import argparse
import sys
from typing import TYPE_CHECKING

from form_invariance.stages.options import (
    add_files,
    add_model_arguments,
    add_options,
    add_required,
)

if TYPE_CHECKING:
    from form_invariance.stages.engine_check.sample import Cell, Sample, Values


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_files(parser, "--dataset", "dataset table of each cell")
    add_files(parser, "--corrupt-table", "corrupt partners of each cell")
    add_files(parser, "--attribution", "attribution table of each cell")
    add_files(parser, "--mean-cache", "mean cache of each format")
    add_required(parser, int, prompts="train prompts of each cell")
    add_options(parser, output="engine check table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.model.transformer_lens_bridge import NotSupportedError, boot
    from form_invariance.stages.engine_check import compute
    from form_invariance.stages.engine_check.hooked import hooked_values
    from form_invariance.stages.engine_check.table import ENGINE_CHECK
    from form_invariance.stages.model_options import device_of, dtype_of, model_provenance
    from form_invariance.stages.tokenizer_options import folder_of
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import common_keys
    from form_invariance.tables.progress import track

    samples, fast = _run_fast(arguments)
    folder = folder_of(arguments)
    try:
        bridge = boot(folder, dtype_of(arguments), device_of(arguments))
    except NotSupportedError as error:
        print(f"the engine is not checked: {error}", file=sys.stderr)
        table = compute.not_compared(samples, arguments.dtype, str(error))
    else:
        every = track(samples.items(), len(samples), "cells with TransformerLens")
        slow = {cell: hooked_values(bridge, sample) for cell, sample in every}
        table = compute.compare(fast, slow, arguments.dtype)
        compute.require_exact(table, arguments.model, arguments.dtype)
    write_table(
        table, arguments.output, ENGINE_CHECK, model_provenance(arguments), common_keys(*arguments.dataset)
    )


def _run_fast(arguments: argparse.Namespace) -> tuple[dict["Cell", "Sample"], dict["Cell", "Values"]]:
    """The samples, and the fast engine's values of each. On return the engine's weights are free again."""
    from form_invariance.errors import UserError
    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.engine_check.compute import fast_values
    from form_invariance.stages.engine_check.sample import build_samples
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.model_options import load_model
    from form_invariance.tables.files import read_tables
    from form_invariance.tables.keys import by_key, matching_cells

    datasets, partners, attributions = matching_cells(
        dataset=arguments.dataset, corrupt_table=arguments.corrupt_table, attribution=arguments.attribution
    )
    means = by_key(arguments.mean_cache, "format")
    if means.keys() != {name for name, _ in datasets}:
        raise UserError("--mean-cache must have a file for each format of --dataset and no other")
    if arguments.prompts < 1:
        raise UserError("--prompts: must be at least 1")
    model, tokenizer = load_model(arguments)
    samples = build_samples(
        {cell: read_train(path, partners[cell], tokenizer, model.device) for cell, path in datasets.items()},
        read_tables(attributions, ATTRIBUTION),
        {name: read_means(path, model) for name, path in means.items()},
        tokenizer,
        arguments.prompts,
    )
    return samples, {cell: fast_values(model, sample) for cell, sample in samples.items()}
