"""Contrasts of keep-only and knockout."""

from pathlib import Path

from form_invariance.experiment.options import Bootstrap, Files, Seed, recorded


def intervention_contrasts(
    *, interventions: Files, by_prompt: Files, datasets: Files, bootstrap: Bootstrap, seed: Seed, output: Path
) -> None:
    """Compare keep-only and knockout of the circuits with the strongest control, over all cells of a model.

    Args:
        interventions: interventions tables of all cells
        by_prompt: their tables by prompt
        datasets: their datasets, with the problems of the prompts
        output: contrasts
    """
    settings = recorded(locals())

    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.interventions.contrasts import cell_of, contrast_table
    from form_invariance.stages.interventions.table import (
        INTERVENTION_CONTRASTS,
        INTERVENTIONS,
        INTERVENTIONS_PROMPTS,
    )
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys, matching_cells

    tables, prompts, problems = matching_cells(interventions=interventions, by_prompt=by_prompt, datasets=datasets)
    # One cell's table by prompt at a time: all of them together are large.
    cells = {
        key: cell_of(
            read_table(path, INTERVENTIONS),
            read_table(prompts[key], INTERVENTIONS_PROMPTS),
            read_table(problems[key], DATASET),
        )
        for key, path in tables.items()
    }
    table = contrast_table(cells, bootstrap, seed)
    write_table(table, output, INTERVENTION_CONTRASTS, settings, common_keys(*interventions))
