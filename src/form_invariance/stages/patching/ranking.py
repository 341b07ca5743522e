"""The final ranking of a cell from the exact indirect effects (paper, section 4.2; method, section 4)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.experiment.membership import layers_in
from form_invariance.statistics import ranks

CHECKED = 50
"""Recall is checked for this many best neurons of each layer."""


def rank_cell(tensors: Mapping[str, np.ndarray], attribution: pd.DataFrame) -> pd.DataFrame:
    """The ranking table from exact effects, which are averaged over the draws of corrupt partners.

    Args:
        tensors: arrays as from `membership.to_tensors`.
        attribution: the attribution table, for the stage-1 columns.
    """
    tables = []
    for layer in layers_in(tensors):
        effects = tensors[f"effects.{layer}"].mean(0, dtype=np.float64)  # (P, C)
        neurons = tensors[f"candidates.{layer}"]
        mean = effects.mean(0)
        tables.append(
            pd.DataFrame(
                {
                    "layer": layer,
                    "neuron": neurons,
                    "rank": ranks(mean, neurons) + 1,
                    "ie_mean": mean,
                    "ie_std": effects.std(0, ddof=1) if len(effects) > 1 else 0.0,
                    "probability_change": tensors[f"probability_change.{layer}"],
                }
            )
        )
    stage1 = attribution.rename(columns={"score": "attribution_score", "rank": "attribution_rank"})
    stage1 = stage1[["layer", "neuron", "attribution_score", "attribution_rank"]]
    ranking = pd.concat(tables).merge(stage1, on=["layer", "neuron"], how="left")
    return ranking.sort_values(["layer", "rank"], ignore_index=True)


def recall_of_attribution(ranking: pd.DataFrame, attribution: pd.DataFrame) -> float | None:
    """The share of a layer's `CHECKED` best by exact effect that are also `CHECKED` best by attribution.

    The mean over layers. A neuron with the effect 0 is in no circuit, so it is not counted. None if no neuron has
    an effect, or if some neurons were not patched, because their effects are unknown.
    """
    best = ranking[(ranking["rank"] <= CHECKED) & (ranking["ie_mean"] != 0)]
    if len(ranking) < len(attribution) or best.empty:
        return None
    return float((best["attribution_rank"] <= CHECKED).groupby(best["layer"]).mean().mean())
