"""What a lower precision does to the ranking: exact effects of a sample of prompts, compared with float32's."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from torch import Tensor

from form_invariance.experiment.run import Run
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.statistics import ranks
from form_invariance.tables.columns import EVERY_LAYER

TOP = 200
"""Size of the circuits whose overlap is measured: that of the paper's tables (deduced)."""


def sample_effects(
    run: Run, train: TrainPrompts, candidates: dict[int, Tensor], prompts: int, metric: str
) -> dict[int, np.ndarray]:
    """Exact effects (P, C) by late layer on the first train prompts, with the first draw of corrupt partners.

    Args:
        prompts: number of prompts.
        metric: one of `indirect_effect.RANKING_METRICS`.
    """
    sample = slice(0, prompts)
    sampled_prompts = TrainPrompts(train.tokens[sample], [train.partners[0][sample]], train.answers[:1, sample])
    by_layer = patch_candidates(run, sampled_prompts, candidates, metric)
    return {layer: effects[0].cpu().numpy() for layer, (effects, _) in by_layer.items()}


def compare(
    exact: Mapping[int, np.ndarray], lower: Mapping[int, np.ndarray], neurons: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    """Agreement of two rankings by mean effect, in each layer and in the mean over layers.

    Args:
        exact: effects in float32 by layer, (P, C).
        lower: effects in the other precision by layer, (P, C).
        neurons: candidates by layer, (C,).

    Returns:
        The precision table without its dtype.
    """
    rows = []
    for layer, values in exact.items():
        means = [effects.astype(np.float64).mean(0) for effects in (values, lower[layer])]
        exact_rank, other_rank = (ranks(mean, neurons[layer]) for mean in means)
        count = len(neurons[layer])
        top = min(TOP, count)
        agreement = _rank_correlation(*means) if count > 1 else 1.0
        rows.append((layer, len(values), count, agreement, top, (other_rank[exact_rank < top] < top).mean()))
    table = pd.DataFrame(rows, columns=["layer", "prompts", "candidates", "rank_correlation", "top", "overlap"])
    means_over = table[["rank_correlation", "overlap"]].mean()
    whole = table.iloc[:1].assign(layer=EVERY_LAYER, candidates=table["candidates"].sum(), **means_over)
    return pd.concat([whole, table], ignore_index=True)


def _rank_correlation(exact: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation of exact and other effects, (C,) each; NaN if the exact ones are all equal."""
    return float(spearmanr(exact, other).statistic) if np.ptp(exact) else float("nan")
