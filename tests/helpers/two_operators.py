"""A model of two operators whose late neurons are written down: each has its own, or both have the same.

A planted model (`planted_models.py`) with two operators in the place of formats, which the last token tells apart.
`addition` answers the sum, `shifted` the sum plus 20. With circuits of their own, the late neurons of `shifted`
add the 20; with a common one, a neuron of layer 1 adds it to the sum, and the same late neurons say the number.
"""

import numpy as np
import planted_models as planted

from embedded_training.tokenizer import build_tokenizer
from form_invariance.randomness import generator

TEMPLATES = {"addition": "{a}+{b}=", "shifted": "{a}+{b}:"}
OPERATORS = [*TEMPLATES]
_MARK = {"addition": "symbolic", "shifted": "word"}
"""The planted format whose last token the operator's prompts end in."""
_SHIFT = 0.2  # the residual stream has sums divided by 100


def write_model(folder, common, seed):
    """Write the model's folder; returns each operator's neurons as a mask (late layers, m)."""
    tokenizer = build_tokenizer(planted.TEMPLATES.values())
    neurons, layers = planted.planted_neurons(common, seed), []
    members = {operator: np.zeros((len(planted.LATE), planted.WIDTH), dtype=bool) for operator in OPERATORS}
    for layer in range(planted.LAYERS):
        rng = generator(seed, "two-operators", layer)
        gate, up, down = matrices = planted.random_neurons(rng)
        if layer == 1 and common:
            # A neuron adds the shift where the last token is that of `shifted`.
            gate[0], up[0], down[:, 0] = 0, 0, 0
            gate[0, planted.CONSTANT] = planted.OPEN / planted.ROOT
            up[0, planted.MARKER[_MARK["shifted"]]] = 1 / (planted.MARK * planted.ROOT)
            down[planted.SUM, 0] = _SHIFT / planted.OPEN
        if layer in planted.LATE:
            shares = rng.uniform(0.5, 1.5, planted.PLANTED)
            shares /= shares.sum() * len(planted.LATE)
            for operator, mark in _MARK.items():
                own = neurons[mark, layer]
                members[operator][layer - planted.LATE[0], own] = True
                planted.plant(gate, up, down, own, shares, None if common else mark)
                if operator == "shifted" and not common:
                    up[own, planted.CONSTANT] = _SHIFT / planted.K
        layers.append(matrices)
    planted.save(folder, planted.weights_of(*planted.embeddings(tokenizer), layers), tokenizer)
    return members
