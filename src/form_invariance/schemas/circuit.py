"""The shared circuit."""

from form_invariance.schemas.columns import NEURON, Schema, integer

CIRCUIT = Schema("circuit", {"k": integer("circuit size: neurons per layer and format"), **NEURON})
