"""Integrated gradients: completeness, their limit in a linear case, and how they compare with attribution."""

import numpy as np
import pytest
import torch
from test_patching import prepared

from form_invariance.model import decoder
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.attribution.integrated import integrate

FIRST = 2


def true_effect(model, tokens, answers, layer, given):
    """The paper's Eq. 4 of the full forward pass with a layer's neurons at `given` (B, m) at the last token."""

    def give(at, post):
        return torch.cat([post[:, :-1], given[:, None]], dim=1) if at == layer else post

    def probabilities(hook):
        x = decoder.run_layers(model, decoder.embed(model, tokens), on_neurons=hook)
        return decoder.logits(model, x[:, -1]).double().softmax(-1).gather(1, answers)

    with torch.no_grad():
        p, q = probabilities(None), probabilities(give)
    return 0.5 * ((q[:, 1] - p[:, 1]) / p[:, 1] + (p[:, 0] - q[:, 0]) / q[:, 0])


@pytest.fixture(scope="module", params=["symbolic", "word"])
def prompts(request, tiny):
    model, tokenizer = tiny
    tokens, corrupt, answers = prepared(tokenizer, request.param)
    return model, tokens, last_token_neurons(model, corrupt, FIRST), answers


def test_the_sum_over_a_layer_is_the_effect_of_moving_it(prompts):
    model, tokens, corrupt, answers = prompts
    found = integrate(model, tokens, corrupt, answers, FIRST, steps=400).double()
    for late in range(len(corrupt)):
        expected = true_effect(model, tokens, answers, FIRST + late, corrupt[late])
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(found[late].sum(1), expected, atol=1e-5, rtol=1e-5)


def test_few_steps_are_nearer_to_it_than_attribution(prompts):
    model, tokens, corrupt, answers = prompts
    errors = {}
    for steps in (1, 5, 10):
        found = integrate(model, tokens, corrupt, answers, FIRST, steps).double().sum(2)
        errors[steps] = 0.0
        for late, sums in enumerate(found):
            expected = true_effect(model, tokens, answers, FIRST + late, corrupt[late])
            errors[steps] += (sums - expected).abs().mean().item()
    first_order = attribute(model, tokens, corrupt, answers, FIRST).double().sum(2)
    error = sum(
        (sums - true_effect(model, tokens, answers, FIRST + late, corrupt[late])).abs().mean().item()
        for late, sums in enumerate(first_order)
    )
    assert errors[10] < errors[5] < errors[1]
    assert errors[10] < error / 5


def test_on_a_short_way_it_is_attribution(prompts):
    model, tokens, corrupt, answers = prompts
    clean = last_token_neurons(model, tokens, FIRST)
    near = clean + 1e-4 * (corrupt - clean)
    one, other = (function(model, tokens, near, answers, FIRST) for function in (integrate, attribute))
    np.testing.assert_allclose(one, other, atol=1e-3 * other.abs().max().item())


def test_batches_do_not_matter(prompts, monkeypatch):
    model, tokens, corrupt, answers = prompts
    whole = integrate(model, tokens, corrupt, answers, FIRST, 4)
    monkeypatch.setattr("form_invariance.stages.attribution.integrated._ROWS", 4)
    torch.testing.assert_close(integrate(model, tokens, corrupt, answers, FIRST, 4), whole, atol=1e-6, rtol=1e-4)
