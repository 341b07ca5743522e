"""The final ranking of a cell from the exact indirect effects (paper, section 4.3; method, section 4)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.errors import UserError

FEWEST = 10
"""Fewer prompts than these rank no neurons of a paraphrase."""

TRIMMED = 0.1
"""Share of the prompts left out at each end of the trimmed mean."""


def positions(values: np.ndarray, neurons: np.ndarray) -> np.ndarray:
    """Rank from 0 of each neuron by value, largest first; ties are broken by the neuron's index.

    Args:
        values: (..., C).
        neurons: (C,).

    Returns:
        (..., C).
    """
    by_index = np.argsort(neurons, kind="stable")
    order = by_index[np.argsort(-values[..., by_index], axis=-1, kind="stable")]
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(len(neurons)), order.shape), axis=-1)
    return ranks


def trimmed_mean(effects: np.ndarray) -> np.ndarray:
    """Mean over the prompts without the lowest and highest 10 %, of effects (P, C); (C,)."""
    cut = int(len(effects) * TRIMMED)
    return np.asarray(np.sort(effects, axis=0)[cut : len(effects) - cut].mean(0))


def ranked_layers(tensors: Mapping[str, np.ndarray]) -> list[int]:
    """The layers that a file of indirect effects holds, in order."""
    return sorted(int(name.removeprefix("candidates.")) for name in tensors if name.startswith("candidates."))


def rank_cell(tensors: Mapping[str, np.ndarray], attribution: pd.DataFrame) -> pd.DataFrame:
    """The ranking table from the effects of the first draw of corrupt partners.

    Args:
        tensors: `effects.L` (S, P, C) and `candidates.L` (C,) of every late layer L.
        attribution: the attribution table, for the stage-1 columns.

    Raises:
        UserError: the two do not belong together.
    """
    tables = []
    for layer in ranked_layers(tensors):
        effects = tensors[f"effects.{layer}"][0].astype(np.float64)  # (P, C)
        neurons = tensors[f"candidates.{layer}"]
        mean = effects.mean(0)
        tables.append(
            pd.DataFrame(
                {
                    "layer": layer,
                    "neuron": neurons,
                    "rank": positions(mean, neurons) + 1,
                    "ie_mean": mean,
                    "ie_std": effects.std(0, ddof=1) if len(effects) > 1 else np.zeros_like(mean),
                    "ie_median": np.median(effects, axis=0),
                    "ie_trimmed_mean": trimmed_mean(effects),
                }
            )
        )
    stage1 = attribution.rename(columns={"score": "attribution_score", "rank": "attribution_rank"})
    stage1 = stage1[["layer", "neuron", "attribution_score", "attribution_rank"]]
    ranking = pd.concat(tables).merge(stage1, on=["layer", "neuron"], how="left")
    if ranking["attribution_rank"].isna().any():
        raise UserError("ranking: the indirect effects hold neurons that the attribution table has not")
    return ranking.sort_values(["layer", "rank"], ignore_index=True)
