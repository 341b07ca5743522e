"""Compare keep-only and knockout of the circuits with the strongest control, over all cells of a model."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--interventions", "FORMAT/OPERATOR=FILE", "interventions tables of all cells")
    add_keyed(parser, "--by-prompt", "FORMAT/OPERATOR=FILE", "their tables by prompt")
    add_keyed(parser, "--dataset", "FORMAT/OPERATOR=FILE", "their datasets: the problems of the prompts")
    add_options(parser, "--bootstrap", "--seed", output="contrasts")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.interventions.contrasts import cell_of, contrast_table
    from form_invariance.stages.interventions.table import (
        INTERVENTION_CONTRASTS,
        INTERVENTIONS,
        INTERVENTIONS_PROMPTS,
    )
    from form_invariance.stages.options import check_cells
    from form_invariance.tables.files import read_table, write_table

    check_cells(arguments, "--interventions", "--by-prompt", "--dataset")
    # One cell's table by prompt at a time: all of them together are large.
    cells = {
        key: cell_of(
            read_table(path, INTERVENTIONS),
            read_table(arguments.by_prompt[key], INTERVENTIONS_PROMPTS),
            read_table(arguments.dataset[key], DATASET),
        )
        for key, path in arguments.interventions.items()
    }
    table = contrast_table(cells, arguments.bootstrap, arguments.seed)
    write_table(table, arguments.output, INTERVENTION_CONTRASTS, settings(arguments, "bootstrap", "seed"))
