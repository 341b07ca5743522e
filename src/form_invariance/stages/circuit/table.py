"""The shared circuit."""

import numpy as np
import pandas as pd

from form_invariance.tables.columns import NEURON, Schema, integer

_MEMBERS = {"k": integer("circuit size: neurons per layer and format"), **NEURON}
CIRCUIT = Schema("circuit", _MEMBERS, ("model", "operator"), by_size=True)
CIRCUIT_HALVES = Schema(
    "circuit_halves",
    {"half": integer("half of every format's train prompts that ranked the neurons: 1 or 2"), **_MEMBERS},
    ("model", "operator"),
    by_size=True,
)


def neurons_of(circuit: pd.DataFrame, k: int) -> pd.DataFrame:
    """The neurons of the circuit at k, sorted by layer and neuron."""
    return circuit[circuit["k"] == k].sort_values(["layer", "neuron"])


def by_layer(neurons: pd.DataFrame) -> dict[int, np.ndarray]:
    """The indices of neurons by layer, layers in ascending order."""
    return {int(str(layer)): rows["neuron"].to_numpy() for layer, rows in neurons.groupby("layer")}
