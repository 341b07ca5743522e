"""Lower precision against float32."""

from dataclasses import replace
from pathlib import Path

from form_invariance.beyond.precision import compute
from form_invariance.beyond.precision.table import PRECISION
from form_invariance.experiment.indirect_effect import RANKINGS
from form_invariance.experiment.options import Ranking, RunOptions, recorded
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.attribution.candidates import read_candidates
from form_invariance.stages.dataset.prompts import read_train
from form_invariance.tables.files import write_table
from form_invariance.tables.keys import common_keys


def precision(
    *,
    model: RunOptions,
    dataset: Path,
    corrupt_table: Path,
    attribution: Path,
    prompts: int,
    ranking: Ranking,
    output: Path,
) -> None:
    """Compare the ranking of one cell in a lower precision with that in float32, on a sample of its prompts.

    Args:
        corrupt_table: corrupt partners of the cell
        prompts: train prompts of the sample
        output: precision table
    """
    settings = recorded(locals())

    effects = []
    for dtype in (model.dtype, "float32"):
        run = load_run(replace(model, dtype=dtype))
        train = read_train(dataset, corrupt_table, run.tokenizer, run.model.device)
        candidates = read_candidates(attribution, run.late, run.model.device)
        effects.append(compute.sample_effects(run, train, candidates, prompts, RANKINGS[ranking]))
        neurons = {layer: indices.cpu().numpy() for layer, indices in candidates.items()}
        provenance = {**settings, **of_run(run)}
        del run, train  # both precisions together may not fit
    lower, exact = effects
    table = compute.compare(exact, lower, neurons).assign(dtype=model.dtype)
    write_table(table, output, PRECISION, provenance, common_keys(dataset))
