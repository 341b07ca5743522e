"""A planted model that copies by other neurons than those that add: what adds is at rest while it copies.

Copying prompts end in the last token of a format that is not measured. There the neurons that add are closed, and
as many others carry the number. So a copied answer is right, but the neurons that compute do not contain it.
"""

import numpy as np
import planted_models
import torch
from planted_models import LATE, MARK, MARKER, OPEN, PLANTED, ROOT, WIDTH
from safetensors.numpy import load_file
from safetensors.torch import save_file

COPYING = "code"
"""The format whose last token the copying prompts have."""


def write_model(folder, seed):
    """Write the model as an ordinary Hugging Face folder."""
    planted_models.write_model(folder, shared=True, seed=seed)
    weights = {name: np.array(weight) for name, weight in load_file(folder / "model.safetensors").items()}
    adding = planted_models.planted_neurons(True, seed)
    for layer in LATE:
        own = adding[COPYING, layer]
        others = [neuron for neuron in range(WIDTH) if neuron not in own][:PLANTED]
        names = (f"model.layers.{layer}.mlp.{name}_proj.weight" for name in ("gate", "up", "down"))
        gate, up, down = (weights[name] for name in names)
        gate[own, MARKER[COPYING]] = -2 * OPEN / (MARK * ROOT)
        planted_models.plant(gate, up, down, others, np.full(PLANTED, 1 / PLANTED / len(LATE)), COPYING)
    tensors = {name: torch.from_numpy(weight) for name, weight in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
