"""The shared circuit."""

import pandas as pd

from form_invariance.tables.columns import NEURON, Schema, integer

CIRCUIT = Schema("circuit", {"k": integer("circuit size: neurons per layer and format"), **NEURON})


def neurons_of(circuit: pd.DataFrame, k: int) -> pd.DataFrame:
    """The neurons of the circuit at k, in order of layer and number."""
    return circuit[circuit["k"] == k].sort_values(["layer", "neuron"])
