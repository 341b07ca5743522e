"""Compare the rankings in a lower precision with those in float32, on a sample of prompts of every cell."""

import argparse
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_files, add_required, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    for option in ("--datasets", "--corrupt-tables", "--attribution"):
        add_files(parser, option, "table of each cell")
    add_required(parser, Path, "+", output="precision tables, one for each dataset, in their order")
    add_required(parser, int, prompts="train prompts of the sample")


def run(arguments: argparse.Namespace) -> None:
    import numpy as np

    from form_invariance.stages.attribution.candidates import read_candidates
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.model_options import model_provenance
    from form_invariance.stages.precision import compute
    from form_invariance.stages.precision.table import PRECISION
    from form_invariance.stages.run import load_run
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import common_keys, matching_cells

    cells, partners, attributions = matching_cells(
        datasets=arguments.datasets, corrupt_tables=arguments.corrupt_tables, attribution=arguments.attribution
    )
    if len(arguments.output) != len(cells):
        raise UserError("--output: give one file for each of --datasets")
    effects: dict[tuple[str, str], list[dict[int, np.ndarray]]] = {cell: [] for cell in cells}
    neurons = {}
    for dtype in (arguments.dtype, "float32"):
        run = load_run(argparse.Namespace(**{**vars(arguments), "dtype": dtype}))
        for cell, path in cells.items():
            train = read_train(path, partners[cell], run.tokenizer, run.model.device)
            candidates = read_candidates(attributions[cell], run.late, run.model.device)
            effects[cell].append(compute.sample_effects(run, train, candidates, arguments.prompts))
            neurons[cell] = {layer: chosen.cpu().numpy() for layer, chosen in candidates.items()}
        del run, train
    for (cell, (lower, exact)), output in zip(effects.items(), arguments.output, strict=True):
        table = compute.compare(exact, lower, neurons[cell]).assign(dtype=arguments.dtype)
        write_table(table, output, PRECISION, model_provenance(arguments), common_keys(cells[cell]))
