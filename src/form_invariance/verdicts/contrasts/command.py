"""All contrasts of one model."""

from pathlib import Path
from typing import Annotated

import pandas as pd
from cyclopts import Parameter

from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.entries import CIRCUITS, DOSE, TASKS
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.measurements import MEASUREMENTS
from form_invariance.experiment.options import Bootstrap, Files, Seed, Sizes, json_object, recorded
from form_invariance.tables.files import write_table
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.keys import common_keys


def contrasts(
    *,
    tables: Files,
    copying: str = "{}",
    k: Sizes,
    best_k: Annotated[list[int], Parameter(help="sizes along the dose")],
    specificity_k: Annotated[list[int], Parameter(help="sizes on tasks that are no operators")],
    bootstrap: Bootstrap,
    seed: Seed,
    output: Path,
) -> None:
    """Compare what sets of neurons do, from the tables by prompt of a model; the model is not loaded.

    Args:
        tables: interventions_prompts and dose_prompts of all cells, specificity_prompts of all formats,
            transfer_pairs of all operators; contrasts that need a missing table are left out
        copying: tasks whose answer is a number of the prompt, as JSON: as in a configuration
        output: contrasts
    """
    settings = recorded(locals())

    paths = input_paths(tables, MEASUREMENTS, "contrasts are made of", optional=MEASUREMENTS)
    prompt_tables = read_inputs(paths, MEASUREMENTS)
    measured = Measured(pd.concat(prompt_tables.values(), ignore_index=True), [*json_object(copying, "--copying")])
    sizes = {CIRCUITS: k, DOSE: sorted({*best_k, *specificity_k}), TASKS: specificity_k}
    table = contrasts_table(measured, sizes, bootstrap, seed)
    write_table(table, output, CONTRASTS, settings, common_keys(*tables))
