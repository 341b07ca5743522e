"""Values for all prompts, and in every bootstrap resample of them: arrays (1 + R,)."""

from collections.abc import Sequence

import numpy as np


def mean_of(values: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of (1 + R,) each."""
    return np.asarray(np.mean(values, axis=0))


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The first value, and the 95 % percentile interval of those after it; NaN where there is none."""
    resampled = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or len(resampled) < 2:
        return float(values[0]), float("nan"), float("nan")
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(values[0]), float(low), float(high)
