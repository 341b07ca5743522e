"""Knock out the neurons of a heuristic's family where their rule holds, and where it does not."""

import argparse

from form_invariance.stages.heuristics.names import MATCHED, SHARED
from form_invariance.stages.options import add_files, add_options, add_required, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_files(parser, "--heuristics", "heuristics table of each cell")
    add_files(parser, "--datasets", "dataset table of each cell")
    add_files(parser, "--census", "census table of each cell, for its task and template")
    add_required(parser, int, max_operand="operands of the grid are below it", prompts="eval prompts of a cell")
    add_options(parser, "--k", "--bootstrap", "--center-logits", "--seed", output="family knockout table")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.family_knockout.compute import cell_pairs, family_knockout_table, right_prompts
    from form_invariance.stages.family_knockout.table import FAMILY_KNOCKOUT
    from form_invariance.stages.heuristics.pairs import grid_of_task
    from form_invariance.stages.heuristics.table import HEURISTICS, strict_labels
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.stages.task_options import recorded_arithmetic
    from form_invariance.tables.files import provenance_of, read_tables, write_table
    from form_invariance.tables.keys import common_keys, matching_cells
    from form_invariance.tables.progress import track

    run, seed = load_run(arguments), arguments.seed
    heuristics, of_cells, censuses = matching_cells(
        heuristics=arguments.heuristics, datasets=arguments.datasets, census=arguments.census
    )
    cells = {}
    datasets: dict[str, list[pd.DataFrame]] = {}
    for (_, operator), table in read_tables(of_cells, DATASET).items():
        datasets.setdefault(operator, []).append(table)
    labelled = read_tables(heuristics, HEURISTICS)
    for (name, operator), table in track(labelled.items(), len(labelled), "cells"):
        strict = strict_labels(table)
        labels = {kind: strict[strict["neurons"] == kind] for kind in (SHARED, *MATCHED)}
        asked = provenance_of(censuses[name, operator])
        grid = grid_of_task(recorded_arithmetic(asked), arguments.max_operand)
        tables, size = datasets[operator], arguments.prompts
        prompts = right_prompts(run, asked["template"], grid, tables, size, seed, operator)
        pairs = cell_pairs(
            run, prompts, labels, (name, operator), arguments.center_logits, arguments.bootstrap, seed
        )
        cells[name, operator] = dict(pairs)
    table = family_knockout_table(cells, arguments.k)
    provenance = run_provenance(
        arguments, run, "max_operand", "prompts", "k", "bootstrap", "center_logits", "seed"
    )
    write_table(table, arguments.output, FAMILY_KNOCKOUT, provenance, common_keys(*arguments.datasets))
