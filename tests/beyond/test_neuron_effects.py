"""What single shared neurons do, against TransformerLens hooks over whole sequences."""

import numpy as np
import oracles
import pytest
import torch
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.neuron_effects.compute import neuron_effects
from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS
from form_invariance.experiment.run import Run

FIRST = 2
NEURONS = [(2, 0), (2, 7), (3, 1)]


def hooked(bridge, tokens, answers, plain, mask):
    """Readouts of the answers with neurons (late layers, m) at their means, each (P,)."""
    z = oracles.ablated(bridge, tokens, FIRST, mask, plain[FIRST:], slice(-1, None))
    return oracles.readout(z, answers, True)


@pytest.fixture
def circuit(tiny):
    members = np.zeros((2, tiny[0].config.d_mlp), dtype=bool)
    for layer, neuron in NEURONS:
        members[layer - FIRST, neuron] = True
    return members


def test_effects_of_single_neurons_equal_hooks(tiny, tiny_folder, circuit):
    model, tokenizer = tiny
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    table = neuron_effects(Run(model, tokenizer, FIRST), tokens, answers, circuit, means, True, batch=2)
    assert list(zip(table["layer"], table["neuron"], strict=True)) == NEURONS
    assert set(table.columns) == set(NEURON_EFFECTS.columns)
    bridge, plain = oracles.bridge(tiny_folder), plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["symbolic"], 4)
    whole = hooked(bridge, tokens, answers, plain, torch.zeros(2, model.config.d_mlp, dtype=torch.bool))
    for row in table.itertuples():
        alone = torch.zeros(2, model.config.d_mlp, dtype=torch.bool)
        alone[row.layer - FIRST, row.neuron] = True
        knocked = hooked(bridge, tokens, answers, plain, alone)
        for measure, atol in (("normalized_logit", 1e-5), ("probability", 1e-7)):
            expected = (knocked[measure] - whole[measure]).mean()
            assert getattr(row, f"knockout_{measure}") == pytest.approx(float(expected), abs=atol)
    assert (table["knockout_normalized_logit"].abs() > 1e-4).any(), "else the comparison says nothing"
