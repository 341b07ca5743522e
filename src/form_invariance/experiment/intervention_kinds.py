"""The interventions on the neurons of a set: what is ablated."""

from collections.abc import Callable

import numpy as np

KEEP_ONLY, KNOCKOUT = "keep_only", "knockout"

INTERVENED: dict[str, Callable[[np.ndarray], np.ndarray]] = {KEEP_ONLY: np.logical_not, KNOCKOUT: np.asarray}
"""Which neurons take their means, (..., late layers, m), from the sets' masks of equal shape; by name."""
