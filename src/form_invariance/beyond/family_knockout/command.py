"""Knockout by heuristic."""

from pathlib import Path

import pandas as pd

from form_invariance.beyond.family_knockout.compute import cell_pairs, family_knockout_table, right_prompts
from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT
from form_invariance.experiment.options import Bootstrap, Centred, Files, RunOptions, Seed, Size, recorded
from form_invariance.experiment.run import load_run, of_run
from form_invariance.experiment.task_options import recorded_arithmetic
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.heuristics.names import MATCHED_BASELINES, SHARED
from form_invariance.stages.heuristics.pairs import grid_of_task
from form_invariance.stages.heuristics.table import HEURISTICS, strict_labels
from form_invariance.tables.files import provenance_of, read_tables, write_table
from form_invariance.tables.keys import common_keys, matching_cells
from form_invariance.tables.progress import track


def family_knockout(
    *,
    model: RunOptions,
    heuristics: Files,
    datasets: Files,
    censuses: Files,
    max_operand: int,
    prompts: int,
    k: Size,
    bootstrap: Bootstrap,
    center_logits: Centred,
    seed: Seed,
    output: Path,
) -> None:
    """Knock out the neurons of a heuristic's family where their rule holds, and where it does not.

    Args:
        heuristics: heuristics table of each cell
        datasets: dataset table of each cell
        censuses: census table of each cell, for its task and template
        max_operand: operands of the grid are below it
        prompts: eval prompts of a cell
        output: family knockout table
    """
    settings = recorded(locals())

    labelled, problems, census_paths = matching_cells(heuristics=heuristics, datasets=datasets, censuses=censuses)
    run = load_run(model)
    cells = {}
    by_operator: dict[str, list[pd.DataFrame]] = {}
    for (_, operator), table in read_tables(problems, DATASET).items():
        by_operator.setdefault(operator, []).append(table)
    tables = read_tables(labelled, HEURISTICS)
    for (name, operator), table in track(tables.items(), len(tables), "cells"):
        strict = strict_labels(table)
        labels = {kind: strict[strict["neurons"] == kind] for kind in (SHARED, *MATCHED_BASELINES)}
        provenance = provenance_of(census_paths[name, operator])
        grid = grid_of_task(recorded_arithmetic(provenance), max_operand)
        right = right_prompts(run, provenance["template"], grid, by_operator[operator], prompts, seed, operator)
        pairs = cell_pairs(run, right, labels, (name, operator), center_logits, bootstrap, seed)
        cells[name, operator] = dict(pairs)
    table = family_knockout_table(cells, k)
    write_table(table, output, FAMILY_KNOCKOUT, {**settings, **of_run(run)}, common_keys(*datasets))
