"""The shared circuit."""

from form_invariance.tables.columns import NEURON, Schema, integer

CIRCUIT = Schema("circuit", {"k": integer("circuit size: neurons per layer and format"), **NEURON})
