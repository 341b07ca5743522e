"""How similar a neuron's activations over the same problems are in two formats (method, section 9)."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.experiment.groups import joined


def correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each neuron's activations in two formats, (neurons,); NaN where one is constant.

    Args:
        first, second: activations at the same pairs of operands, (neurons, P).
    """
    return (_standardised(first) * _standardised(second)).sum(1)


def _standardised(activations: np.ndarray) -> np.ndarray:
    """Rows (neurons, P) with mean 0 and length 1; NaN where a row is constant."""
    centred = activations - activations.mean(1, keepdims=True, dtype=np.float64)
    constant = (activations == activations[:, :1]).all(1)
    return centred / np.where(constant, np.nan, np.linalg.norm(centred, axis=1))[:, None]


def correlation_table(samples: Mapping[str, np.ndarray], neurons: pd.DataFrame) -> pd.DataFrame:
    """Correlation of every neuron between every two formats.

    Args:
        samples: by format, activations at the same pairs, (neurons, P).
        neurons: columns neurons (their kind), layer, neuron, in the order of the samples' rows.

    Returns:
        Columns kind, layer, neuron, formats, correlation.
    """
    named = neurons.rename(columns={"neurons": "kind"})
    return pd.concat(
        [
            named.assign(formats=joined(pair), correlation=correlation(*(samples[name] for name in pair)))
            for pair in combinations(samples, 2)
        ],
        ignore_index=True,
    )
