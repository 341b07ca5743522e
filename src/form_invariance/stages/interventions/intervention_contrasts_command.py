"""Compare keep-only and knockout of the circuits with the strongest control, over all cells of a model."""

import argparse

from form_invariance.stages.options import add_files, add_options, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--interventions", "interventions tables of all cells")
    add_files(parser, "--by-prompt", "their tables by prompt")
    add_files(parser, "--dataset", "their datasets: the problems of the prompts")
    add_options(parser, "--bootstrap", "--seed", output="contrasts")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.interventions.contrasts import cell_of, contrast_table
    from form_invariance.stages.interventions.table import (
        INTERVENTION_CONTRASTS,
        INTERVENTIONS,
        INTERVENTIONS_PROMPTS,
    )
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys, matching_cells

    tables, by_prompt, datasets = matching_cells(
        interventions=arguments.interventions, by_prompt=arguments.by_prompt, dataset=arguments.dataset
    )
    # One cell's table by prompt at a time: all of them together are large.
    cells = {
        key: cell_of(
            read_table(path, INTERVENTIONS),
            read_table(by_prompt[key], INTERVENTIONS_PROMPTS),
            read_table(datasets[key], DATASET),
        )
        for key, path in tables.items()
    }
    table = contrast_table(cells, arguments.bootstrap, arguments.seed)
    keys, provenance = common_keys(*arguments.interventions), settings(arguments, "bootstrap", "seed")
    write_table(table, arguments.output, INTERVENTION_CONTRASTS, provenance, keys)
