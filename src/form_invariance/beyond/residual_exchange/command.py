"""Exchange of the residual stream."""

from pathlib import Path

from form_invariance.beyond.residual_exchange.compute import run_exchanges
from form_invariance.beyond.residual_exchange.donors import donations, with_copies
from form_invariance.beyond.residual_exchange.table import RESIDUAL_EXCHANGE
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import ModelOptions, OtherFiles, Seed, json_object, recorded
from form_invariance.experiment.run import Run
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.table import DATASET
from form_invariance.stages.transfer.copies import right_copies, tasks_in
from form_invariance.tables.files import read_tables, write_table
from form_invariance.tables.keys import by_cell, by_key, keys_of


def residual_exchange(
    *,
    model: ModelOptions,
    dataset: Path,
    datasets: OtherFiles,
    censuses: OtherFiles,
    tasks: str = "{}",
    seed: Seed,
    output: Path,
) -> None:
    """Give the last token of one cell's prompts the residual stream of other prompts, at every layer.

    Args:
        dataset: dataset table of the cell, whose eval prompts receive
        datasets: dataset tables of the cell's operator in all formats, and of its format for all operators
        censuses: census table of the cell's operator in all formats
        tasks: copying tasks, as JSON: as in a configuration, with the limits of all their operands
        output: table by prompt
    """
    settings = recorded(locals())

    keys = keys_of(dataset)
    cell = keys["format"], keys["operator"]
    censuses_by_format = read_tables(by_key(censuses, "format"), CENSUS)
    donors = donations(cell, read_tables(by_cell(datasets), DATASET), censuses_by_format, seed)
    run = Run(*load_model(model), first=0)
    if copying := tasks_in(cell[0], json_object(tasks, "--tasks")):
        copies = right_copies(run, copying, donors["donor_token"].unique(), len(donors), seed)
        donors = with_copies(donors, copies, cell, seed)
    provenance = {**settings, "device": str(run.model.device)}
    write_table(run_exchanges(run, donors), output, RESIDUAL_EXCHANGE, provenance, keys)
