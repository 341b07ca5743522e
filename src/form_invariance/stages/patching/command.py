"""Stage 2 of the ranking of one cell."""

import sys
from pathlib import Path

from form_invariance.experiment.indirect_effect import RANKINGS
from form_invariance.experiment.membership import to_tensors
from form_invariance.experiment.options import Ranking, RunOptions, recorded
from form_invariance.experiment.run import load_run, of_run
from form_invariance.stages.attribution.candidates import read_candidates
from form_invariance.stages.attribution.table import ATTRIBUTION
from form_invariance.stages.dataset.prompts import read_train
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.patching.ranking import CHECKED, rank_cell, recall_of_attribution
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_table, write_table, write_tensors
from form_invariance.tables.keys import common_keys


def patching(
    *,
    model: RunOptions,
    dataset: Path,
    corrupt_table: Path,
    attribution: Path,
    ranking: Ranking,
    output: Path,
    ranking_output: Path,
) -> None:
    """Compute the exact effect of every candidate in one cell, by replay, and rank the candidates.

    Args:
        corrupt_table: corrupt partners of the cell
        output: effects by prompt (safetensors)
        ranking_output: ranking table
    """
    settings = recorded(locals())

    run, keys = load_run(model), common_keys(dataset)
    train = read_train(dataset, corrupt_table, run.tokenizer, run.model.device)
    candidates = read_candidates(attribution, run.late, run.model.device)
    tensors = to_tensors(patch_candidates(run, train, candidates, RANKINGS[ranking]), candidates)
    effects = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    estimates = read_table(attribution, ATTRIBUTION)
    table = rank_cell(effects, estimates)
    provenance = {
        **settings,
        **of_run(run),
        "n_layers": run.model.config.n_layers,
        "d_mlp": run.width,
        "corrupt_seeds": len(train.partners),
        "prompts": len(train.tokens),
    }
    write_tensors(effects, output, "indirect_effects", provenance, keys)
    recall = recall_of_attribution(table, estimates)
    if recall is not None:
        provenance["recall_of_attribution"] = recall
        contained = (
            f"the {CHECKED} best of a layer by attribution contain {recall:.1%} of its exact {CHECKED} best"
        )
        print(f"all neurons were patched: {contained} (mean over layers)", file=sys.stderr)
    write_table(table, ranking_output, RANKING, provenance, keys)
