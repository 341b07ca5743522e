"""Exchange of single heads."""

from pathlib import Path

from form_invariance.beyond.residual_exchange.contrasts import arrives
from form_invariance.beyond.residual_exchange.contrasts import exchanges as read_exchanges
from form_invariance.beyond.residual_exchange.donors import donations
from form_invariance.beyond.residual_exchange.heads import head_table
from form_invariance.beyond.residual_exchange.table import HEADS, RESIDUAL_EXCHANGE
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Bootstrap, Files, ModelOptions, Seed, recorded
from form_invariance.experiment.run import Run
from form_invariance.stages.dataset.table import DATASET
from form_invariance.tables.files import read_tables, write_table
from form_invariance.tables.keys import common_keys, matching_cells


def head_exchange(
    *, model: ModelOptions, datasets: Files, exchanges: Files, bootstrap: Bootstrap, seed: Seed, output: Path
) -> None:
    """Exchange the outputs of heads at the last token, in the layer where one operator's states arrive.

    Args:
        datasets: dataset table of every format
        exchanges: residual exchange table of every format
        output: table of heads
    """
    settings = recorded(locals())

    cells, measured = matching_cells(datasets=datasets, exchanges=exchanges)
    keys = common_keys(*datasets, *exchanges)
    problems = read_tables(cells, DATASET)
    at = arrives(read_exchanges(read_tables(measured, RESIDUAL_EXCHANGE), 0, seed))
    format_donations = {cell[0]: donations(cell, problems, {}, seed) for cell in cells}
    run = Run(*load_model(model), first=0)
    table = head_table(run, format_donations, keys["operator"], at, bootstrap, seed)
    write_table(table, output, HEADS, {**settings, "device": str(run.model.device)}, keys)
