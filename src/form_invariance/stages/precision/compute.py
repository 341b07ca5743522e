"""What a lower precision does to the ranking: exact effects of a sample of prompts, compared with float32's."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from form_invariance.stages.ranking.compute import positions

TOP = 200
"""Size of the circuit whose overlap is measured: that of the paper's tables (deduced)."""
EVERY_LAYER = -1


def compare(
    exact: Mapping[int, np.ndarray], lower: Mapping[int, np.ndarray], neurons: Mapping[int, np.ndarray]
) -> pd.DataFrame:
    """Agreement of two rankings by mean effect, layer by layer and in the mean over layers.

    Args:
        exact: float32's effects (P, C) by layer.
        lower: the other precision's.
        neurons: the candidates, (C,) by layer.

    Returns:
        Columns layer (-1: mean over layers), prompts, candidates, rank_correlation (Spearman's), top, overlap.
    """
    rows = []
    for layer, values in exact.items():
        means = [effects.astype(np.float64).mean(0) for effects in (values, lower[layer])]
        top = min(TOP, len(neurons[layer]))
        best = [set(neurons[layer][positions(mean, neurons[layer]) < top].tolist()) for mean in means]
        rows.append(
            {
                "layer": layer,
                "prompts": len(values),
                "candidates": len(neurons[layer]),
                "rank_correlation": float(spearmanr(*means).statistic) if len(means[0]) > 1 else 1.0,
                "top": top,
                "overlap": len(best[0] & best[1]) / top,
            }
        )
    table = pd.DataFrame(rows)
    whole = table.iloc[:1].assign(
        layer=EVERY_LAYER,
        candidates=table["candidates"].sum(),
        rank_correlation=table["rank_correlation"].mean(),
        overlap=table["overlap"].mean(),
    )
    return pd.concat([whole, table], ignore_index=True)
