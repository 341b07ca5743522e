"""Lower precision against float32."""

from dataclasses import replace
from typing import TYPE_CHECKING

from form_invariance.errors import UserError
from form_invariance.stages.options import Files, RunOptions, recorded

if TYPE_CHECKING:
    import numpy as np


def precision(
    *, model: RunOptions, datasets: Files, corrupt_tables: Files, attribution: Files, prompts: int, output: Files
) -> None:
    """Compare the rankings in a lower precision with those in float32, on a sample of prompts of every cell.

    Args:
        datasets: dataset table of each cell
        corrupt_tables: corrupt partners of each cell
        attribution: attribution table of each cell
        prompts: train prompts of the sample
        output: precision tables, one for each dataset, in their order
    """
    settings = recorded(locals())

    from form_invariance.stages.attribution.candidates import read_candidates
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.precision import compute
    from form_invariance.stages.precision.table import PRECISION
    from form_invariance.stages.run import load_run
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import common_keys, matching_cells

    cells, partners, attributions = matching_cells(
        datasets=datasets, corrupt_tables=corrupt_tables, attribution=attribution
    )
    if len(output) != len(cells):
        raise UserError("--output: give one file for each of --datasets")
    effects: dict[tuple[str, str], list[dict[int, np.ndarray]]] = {cell: [] for cell in cells}
    neurons = {}
    for dtype in (model.dtype, "float32"):
        run = load_run(replace(model, dtype=dtype))
        for cell, path in cells.items():
            train = read_train(path, partners[cell], run.tokenizer, run.model.device)
            candidates = read_candidates(attributions[cell], run.late, run.model.device)
            effects[cell].append(compute.sample_effects(run, train, candidates, prompts))
            neurons[cell] = {layer: chosen.cpu().numpy() for layer, chosen in candidates.items()}
        provenance = {**settings, "device": str(run.model.device)}
        del run, train
    for (cell, (lower, exact)), path in zip(effects.items(), output, strict=True):
        table = compute.compare(exact, lower, neurons[cell]).assign(dtype=model.dtype)
        write_table(table, path, PRECISION, provenance, common_keys(cells[cell]))
