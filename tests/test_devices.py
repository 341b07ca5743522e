"""Tensors lie where the weights are: torch's meta device knows shapes alone, and refuses the CPU's tensors."""

import dataclasses

import numpy as np
import pytest
import torch

from form_invariance import ablation, attribution
from form_invariance.heuristics.activations import answer_logits, operand_maps
from form_invariance.heuristics.pairs import make_grid
from form_invariance.mean_cache import MeanCache
from form_invariance.replay import build_cache, last_token_attention, log_probabilities, replay, select

FIRST, TOKENS, PROMPTS = 2, 6, 3


def moved(value):
    """Weights, or what holds weights, on the meta device."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, list):
        return [moved(one) for one in value]
    if dataclasses.is_dataclass(value):
        parts = {field.name: moved(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value


@pytest.fixture(scope="module")
def elsewhere(tiny):
    return moved(tiny[0])


@pytest.fixture(scope="module")
def tokens():
    return torch.zeros(PROMPTS, TOKENS, dtype=torch.int64, device="meta")


def is_elsewhere(*tensors):
    return all(tensor.device.type == "meta" for tensor in tensors)


def test_replay(elsewhere, tokens):
    cache = build_cache(elsewhere, tokens, FIRST)
    assert is_elsewhere(*cache.keys, *cache.values, cache.residual, cache.neurons)
    some = select(cache, slice(1, 3))
    x = replay(elsewhere, some, some.residual[0][:, None].expand(-1, 5, -1), FIRST)
    assert x.shape == (2, 5, elsewhere.config.d_model)
    assert is_elsewhere(x, log_probabilities(elsewhere, x, tokens[1:, :2]))
    pattern = last_token_attention(elsewhere, FIRST, cache)
    assert is_elsewhere(pattern)
    assert pattern.shape == (PROMPTS, elsewhere.config.n_heads, TOKENS)


def test_activation_maps(tiny):
    """Weights on the CPU while torch's own choice is another device."""
    grid, neurons = make_grid("a + b", 4), {1: np.array([3, 60]), 3: np.array([0])}
    model, tokenizer = tiny
    expected = operand_maps(model, tokenizer, "{a}+{b}=", grid, neurons), answer_logits(*tiny, grid, neurons)
    with torch.device("meta"):
        found = operand_maps(model, tokenizer, "{a}+{b}=", grid, neurons), answer_logits(*tiny, grid, neurons)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_attribution(elsewhere, tokens, monkeypatch):
    monkeypatch.setattr(attribution, "check_finite", lambda values, what: values)
    layers = elsewhere.config.n_layers - FIRST
    corrupt = torch.empty(layers, PROMPTS, elsewhere.config.d_mlp, device="meta")
    effects = attribution.attribute(elsewhere, tokens, corrupt, tokens[:, :2], FIRST)
    assert is_elsewhere(effects)
    assert effects.shape == corrupt.shape


def test_ablation(elsewhere, tokens, monkeypatch):
    monkeypatch.setattr(ablation, "check_finite", lambda values, what: values)
    c = elsewhere.config
    neurons = [torch.empty(TOKENS - 1, c.d_mlp, device="meta")] * c.n_layers
    heads = [torch.empty(TOKENS - 1, c.n_heads, c.d_head, device="meta")] * c.n_layers
    means = MeanCache(neurons, heads, [], torch.empty(TOKENS - 1))
    answers = tokens[:, 0]
    run = ablation.start_run(elsewhere, tokens, answers, FIRST)
    masks = torch.zeros(2, c.n_layers - FIRST, c.d_mlp, dtype=torch.bool, device="meta")
    for readout, shape in (
        (ablation.run_unmodified(elsewhere, run, True), (PROMPTS,)),
        (ablation.run_all_ablated(elsewhere, tokens, answers, means, True), (PROMPTS,)),
        (ablation.ablate_all_positions(elsewhere, run, masks, means, True, True), (2, PROMPTS)),
        (ablation.ablate_last_position(elsewhere, run, masks, means, True), (2, PROMPTS)),
    ):
        found = (readout.normalized_logit, readout.correct, readout.probability, readout.predicted)
        assert is_elsewhere(*found)
        assert {values.shape for values in found} == {shape}
