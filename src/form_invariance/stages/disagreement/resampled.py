"""Values for all prompts, and in every bootstrap resample of them: arrays (1 + R,)."""

from collections.abc import Sequence

import numpy as np


def mean_of(values: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of (1 + R,) each."""
    return np.asarray(np.mean(values, axis=0))
