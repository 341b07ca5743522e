"""What single shared neurons do, against TransformerLens hooks over whole sequences."""

import oracles
import pytest
import torch
from small_prompts import CACHE_PROMPTS, plain_means, prepare

from form_invariance.beyond.neuron_effects.compute import neuron_effects
from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS
from form_invariance.experiment.run import Run

FIRST = 2
NEURONS = [(2, 0), (2, 7), (3, 1)]


def test_effects_of_single_neurons_equal_hooks(tiny, tiny_folder):
    model, tokenizer = tiny
    members = torch.zeros(2, model.config.d_mlp, dtype=torch.bool)
    members[tuple(torch.tensor(NEURONS).T - torch.tensor([[FIRST], [0]]))] = True
    tokens, answers, means = prepare(model, tokenizer, "symbolic")
    table = neuron_effects(Run(model, tokenizer, FIRST), tokens, answers, members.numpy(), means, True, batch=2)
    assert list(zip(table["layer"], table["neuron"], strict=True)) == NEURONS
    assert set(table.columns) == set(NEURON_EFFECTS.columns)
    bridge, plain = oracles.bridge(tiny_folder), plain_means(tiny_folder, tokenizer, CACHE_PROMPTS["symbolic"], 4)

    def hooked(mask):
        z = oracles.ablated(bridge, tokens, FIRST, mask, plain[FIRST:], slice(-1, None))
        return oracles.readout(z, answers, True)

    whole = hooked(torch.zeros_like(members))
    for row in table.itertuples():
        alone = torch.zeros_like(members)
        alone[row.layer - FIRST, row.neuron] = True
        knocked = hooked(alone)
        for measure, atol in (("normalized_logit", 1e-5), ("probability", 1e-7)):
            expected = (knocked[measure] - whole[measure]).mean()
            assert getattr(row, f"knockout_{measure}") == pytest.approx(float(expected), abs=atol)
    assert (table["knockout_normalized_logit"].abs() > 1e-4).any(), "else the comparison says nothing"
