"""The interventions on the neurons of a set: what is ablated."""

from collections.abc import Callable

import numpy as np

KEEP_ONLY, KNOCKOUT = "keep_only", "knockout"
DIRECT = "direct"
"""A knockout whose change of the residual stream reaches the unembedding alone, past all later layers."""

INTERVENED: dict[str, Callable[[np.ndarray], np.ndarray]] = {KEEP_ONLY: np.logical_not, KNOCKOUT: np.asarray}
"""The neurons that take their means, by intervention: from the sets' masks (..., late layers, m), same shape."""
