"""Integrated gradients: completeness, their limit in a linear case, and how they compare with attribution."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_attribution import true_effect
from test_patching import prepared

from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.attribution.integrated import integrate

FIRST = 2


def moved(model, tokens, answers, corrupt, late):
    """The exact effect of a layer's neurons, all at their corrupt activations at once, (P,)."""
    change = corrupt - last_token_neurons(model, tokens, FIRST)
    return true_effect(model, tokens, answers, FIRST + late, change[late]).detach()


@pytest.fixture(scope="module", params=["symbolic", "word"])
def prompts(request, tiny):
    model, tokenizer = tiny
    tokens, corrupt, answers = prepared(tokenizer, request.param)
    return model, tokens, last_token_neurons(model, corrupt, FIRST), answers


def test_the_sum_over_a_layer_is_the_effect_of_moving_it(prompts):
    model, tokens, corrupt, answers = prompts
    found = integrate(model, tokens, corrupt, answers, FIRST, steps=400).double()
    for late in range(len(corrupt)):
        expected = moved(model, tokens, answers, corrupt, late)
        assert expected.abs().max() > 1e-3
        torch.testing.assert_close(found[late].sum(1), expected, atol=1e-5, rtol=1e-5)


def test_few_steps_are_nearer_to_it_than_attribution(prompts):
    model, tokens, corrupt, answers = prompts
    errors = {}
    for steps in (1, 5, 10):
        found = integrate(model, tokens, corrupt, answers, FIRST, steps).double().sum(2)
        errors[steps] = 0.0
        for late, sums in enumerate(found):
            expected = moved(model, tokens, answers, corrupt, late)
            errors[steps] += (sums - expected).abs().mean().item()
    first_order = attribute(model, tokens, corrupt, answers, FIRST).double().sum(2)
    error = sum(
        (sums - moved(model, tokens, answers, corrupt, late)).abs().mean().item()
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


def test_effects_beyond_float32_are_still_ranked(prompts):
    """All neurons of a layer together may change a probability by a factor that no float32 can hold."""
    model, tokens, corrupt, answers = prompts
    confident = replace(model, unembedding=300 * model.unembedding)
    found = integrate(confident, tokens, corrupt, answers, FIRST)
    assert found.isfinite().all()
    assert found.abs().max() > torch.finfo(torch.float32).max
