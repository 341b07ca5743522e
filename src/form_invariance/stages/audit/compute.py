"""What the first stage of the ranking lets through, where every neuron was patched (method, section 11).

A first stage estimates the effects of all neurons; only the best by this estimate are patched exactly. Here all
were patched, so it is known how many of the exact best each estimate would have let through, by the number of
candidates.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from form_invariance.errors import UserError
from form_invariance.stages.attribution.compute import ESTIMATES, first_stage
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.stages.run import Run
from form_invariance.tables.columns import EVERY_LAYER

SHARES = (0.02, 0.05, 0.1, 0.14, 0.2, 0.4, 0.8, 1.0)
"""Shares of a layer that go on to exact patching; 0.14 is 2,000 of Llama-3-8B's 14,336."""
ENOUGH = 0.99
"""The recall that `enough` candidates have."""


def estimates_of(run: Run, train: TrainPrompts) -> dict[str, pd.DataFrame]:
    """The attribution table of a cell by every method that estimates effects."""
    return {method: first_stage(run, train, run.width, method) for method in ESTIMATES}


def audit_cell(
    ranking: pd.DataFrame, estimates: Mapping[str, pd.DataFrame], width: int, ks: Sequence[int]
) -> pd.DataFrame:
    """Recall of the exact top-k among each method's best, by layer and over the layers.

    Args:
        ranking: the ranking table of a cell.
        estimates: from `estimates_of`.
        width: neurons of a layer.
        ks: circuit sizes.

    Returns:
        Columns method, layer (-1 = all: means, and `enough` for the mean recall), k, candidates, recall,
        rank_correlation of the estimate and the exact effect, and enough, the fewest candidates with recall .99.

    Raises:
        UserError: not every neuron was patched, so that the exact top-k is not known.
    """
    for layer, rows in ranking.groupby("layer"):
        if len(rows) != width:
            raise UserError(
                f"audit: {len(rows)} of the {width} neurons of layer {layer} were patched, so their exact "
                f"top-k is not known; set candidates to {width} or more, or ranking_method to exact"
            )
    exact, key = ranking[["layer", "neuron", "rank", "ie_mean"]], ["layer", "neuron"]
    parts = []
    for method, table in estimates.items():
        both = exact.merge(table[[*key, "score", "rank"]], on=key, suffixes=("", "_by"))
        parts.append(pd.DataFrame(_rows(both, width, ks)).assign(method=method))
    return pd.concat(parts, ignore_index=True)


def _rows(both: pd.DataFrame, width: int, ks: Sequence[int]) -> Iterator[dict[str, float]]:
    """The rows of one method: of every layer, and over all."""
    layers = {int(str(layer)): rows for layer, rows in both.groupby("layer")}
    correlations = {
        layer: rank_correlation(rows["ie_mean"].to_numpy(), rows["score"].to_numpy())
        for layer, rows in layers.items()
    }
    # A neuron without any effect is in no circuit, so it cannot be missed.
    ranked = {layer: rows[rows["ie_mean"] != 0].sort_values("rank") for layer, rows in layers.items()}
    places = {layer: rows["rank_by"].to_numpy() for layer, rows in ranked.items() if len(rows)}
    for k in ks:
        for over, members in [*((layer, [layer]) for layer in layers), (EVERY_LAYER, list(layers))]:
            best = [places[layer][:k] for layer in members if layer in places]
            agreement = float(np.mean([correlations[layer] for layer in members]))
            whole = {"layer": over, "k": k, "rank_correlation": agreement, "enough": _enough(best, width)}
            for share in SHARES:
                candidates = max(1, round(share * width))
                yield {**whole, "candidates": candidates, "recall": _recall(best, candidates)}


def rank_correlation(exact: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation of exact and other effects, (C,); NaN where the exact ones are all equal."""
    return float(spearmanr(exact, other).statistic) if np.ptp(exact) else float("nan")


def _recall(places: Sequence[np.ndarray], candidates: int) -> float:
    """Mean over the layers of the share of the exact best whose places are among the candidates."""
    return float(np.mean([np.mean(of_cell <= candidates) for of_cell in places])) if places else float("nan")


def _enough(places: Sequence[np.ndarray], width: int) -> float:
    """The fewest candidates with recall `ENOUGH`."""
    if not places:
        return float("nan")
    few, many = 0, width
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _recall(places, middle) >= ENOUGH else (middle, many)
    return float(many)
