"""Contrasts of transfer."""

from pathlib import Path

from form_invariance.experiment.options import Bootstrap, Files, Seed, recorded


def transfer_contrasts(*, tables: Files, bootstrap: Bootstrap, seed: Seed, output: Path) -> None:
    """Compare the conditions of transfer, over pairs and cells of a model.

    Args:
        tables: transfer and transfer_pairs tables of every operator
        output: table of contrasts
    """
    settings = recorded(locals())

    from form_invariance.stages.transfer.contrasts import contrast_table
    from form_invariance.stages.transfer.table import CONTRASTED, TRANSFER_CONTRASTS
    from form_invariance.tables.files import write_table
    from form_invariance.tables.inputs import input_paths, read_inputs
    from form_invariance.tables.keys import common_keys

    found = read_inputs(input_paths(tables, CONTRASTED, "the contrasts need"), CONTRASTED)
    contrasts = contrast_table(found["transfer"], found["transfer_pairs"], bootstrap, seed)
    write_table(contrasts, output, TRANSFER_CONTRASTS, settings, common_keys(*tables))
