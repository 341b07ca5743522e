"""Stage 1 of the ranking of one cell."""

from pathlib import Path

from form_invariance.experiment.indirect_effect import RANKINGS
from form_invariance.experiment.options import Ranking, RunOptions, recorded
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.attribution.table import ATTRIBUTION
from form_invariance.stages.dataset.prompts import read_train
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import common_keys


def attribution(
    *, model: RunOptions, dataset: Path, corrupt_table: Path, candidates: int, ranking: Ranking, output: Path
) -> None:
    """Estimate the effect of every late neuron in one cell.

    Args:
        corrupt_table: corrupt partners of the cell
        candidates: neurons per layer that are patched exactly
        output: attribution table
    """
    settings = recorded(locals())

    run = load_run(model)
    train = read_train(dataset, corrupt_table, run.tokenizer, run.model.device)
    table = first_stage(run, train, candidates, RANKINGS[ranking])
    write_table(table, output, ATTRIBUTION, {**settings, **of_run(run)}, common_keys(dataset))
