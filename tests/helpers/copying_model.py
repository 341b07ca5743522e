"""A planted model that copies by other neurons than those that add: what adds is at rest while it copies.

Copying prompts end in the last token of a format that is not measured. There the neurons that add are closed, and
as many others carry the number. So a copied answer is right, but the neurons that compute do not contain it.
"""

import numpy as np
import planted_models
from planted_models import LATE, MARK, MARKER, OPEN, PLANTED, ROOT, WIDTH

COPYING = "code"
"""The format whose last token the copying prompts have."""


def write_model(folder, seed):
    weights, tokenizer = planted_models.model_of(True, seed)
    adding = planted_models.planted_neurons(True, seed)
    for layer in LATE:
        own = adding[COPYING, layer]
        others = [neuron for neuron in range(WIDTH) if neuron not in own][:PLANTED]
        names = (f"model.layers.{layer}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        gate, up, down = (weights[name] for name in names)
        gate[own, MARKER[COPYING]] = -2 * OPEN / (MARK * ROOT)
        planted_models.plant(gate, up, down, others, np.full(PLANTED, 1 / PLANTED / len(LATE)), COPYING)
    planted_models.save(folder, weights, tokenizer)
