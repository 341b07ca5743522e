"""What the first stage of the ranking lets through, where every neuron was patched (method, section 11)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from form_invariance.errors import UserError
from form_invariance.tables.columns import EVERY_LAYER

SHARES = (0.02, 0.05, 0.1, 0.14, 0.2, 0.4, 0.8, 1.0)
"""Shares of a layer that go on to exact patching; 0.14 is 2,000 of Llama-3-8B's 14,336."""


def audit_cell(ranking: pd.DataFrame, width: int, ks: Sequence[int]) -> pd.DataFrame:
    """Recall of the exact top-k among the first stage's best, by layer and in the mean over the layers.

    Args:
        ranking: the ranking table of a cell.
        width: neurons of a layer.
        ks: circuit sizes.

    Returns:
        Columns layer (-1 = mean), k, candidates, recall, and rank_correlation of the two stages' scores.

    Raises:
        UserError: not every neuron was patched, so that the exact top-k is not known.
    """
    parts = []
    for layer, rows in ranking.groupby("layer"):
        if len(rows) != width:
            raise UserError(
                f"audit: {len(rows)} of the {width} neurons of layer {layer} were patched, so their exact "
                f"top-k is not known; set candidates to {width} or more"
            )
        agreement = spearmanr(rows["ie_mean"], rows["attribution_score"]).statistic
        # A neuron without any effect is in no circuit, so it cannot be missed.
        first = rows[rows["ie_mean"] != 0].sort_values("rank")["attribution_rank"].to_numpy()
        for k in ks:
            for share in SHARES:
                candidates = max(1, round(share * width))
                recall = float(np.mean(first[:k] <= candidates)) if len(first) else float("nan")
                parts.append((int(str(layer)), k, candidates, recall, float(agreement)))
    table = pd.DataFrame(parts, columns=["layer", "k", "candidates", "recall", "rank_correlation"])
    means = table.groupby(["k", "candidates"], as_index=False)[["recall", "rank_correlation"]].mean()
    return pd.concat([means.assign(layer=EVERY_LAYER), table], ignore_index=True)


def audit(rankings: Mapping[tuple[str, ...], pd.DataFrame], width: int, ks: Sequence[int]) -> pd.DataFrame:
    """The audit table of all cells of a model, by (format, operator)."""
    parts = [
        audit_cell(ranking, width, ks).assign(format=name, operator=operator)
        for (name, operator), ranking in rankings.items()
    ]
    return pd.concat(parts, ignore_index=True)
