"""Exact patching against TransformerLens's full hooked forward pass and the paper's formula."""

from itertools import count

import numpy as np
import oracles
import pytest
import torch
from small_prompts import prepared

from form_invariance.experiment import indirect_effect as effects
from form_invariance.model import decoder
from form_invariance.model.near_readout import Readouts
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching import compute as patching
from form_invariance.stages.patching.compute import patch_layers, patch_neurons

pytestmark = pytest.mark.slow


def compare(model, tokenizer, folder, name, neurons):
    tokens, corrupt, answers = prepared(tokenizer, name)
    layers, first = model.config.n_layers, model.config.n_layers // 2
    bridge = oracles.bridge(folder)
    cache = build_cache(model, tokens, first)
    given = last_token_neurons(model, corrupt, first)
    clean = oracles.last_logits(bridge, tokens)
    torch.testing.assert_close(decoder.logits(model, cache.residual[-1]), clean, atol=1e-4, rtol=0)
    largest = 0.0
    for layer in range(first, layers):
        expected = oracles.patched_effects(bridge, tokens, corrupt, answers, layer, neurons.tolist())
        got = patch_neurons(model, cache, layer, neurons, given[layer - first][:, neurons], answers)
        difference = np.abs(got.numpy() - expected)
        # The effect is unbounded: beyond 1 the comparison is relative, as fp32 is.
        assert (difference < 1e-5 * np.maximum(1, np.abs(expected))).all(), (layer, difference.max())
        largest = np.maximum(largest, np.abs(expected).max((1, 2)))
    assert (largest > (1e-3, 1e-9)).all(), "the patches did nothing"


@pytest.mark.parametrize("name", ["symbolic", "word"])
def test_random_model_equals_full_hooked_forward(tiny, tiny_folder, name):
    model, tokenizer = tiny
    compare(model, tokenizer, tiny_folder, name, torch.arange(0, model.config.d_mlp, 3))


@pytest.mark.parametrize(("which", "name"), [("embedded-shared", "word"), ("embedded-separate", "code")])
def test_packaged_models_equal_full_hooked_forward(packaged, which, name):
    model, tokenizer, folder = packaged[which]
    compare(model, tokenizer, folder, name, torch.arange(0, model.config.d_mlp, 172))


@pytest.mark.parametrize("rows", [1, 7, 64])
def test_batch_size_and_order_change_nothing(tiny, monkeypatch, rows):
    model, tokenizer = tiny
    tokens, corrupt, answers = prepared(tokenizer, "word")
    given = last_token_neurons(model, corrupt, 2)[None]
    order = torch.randperm(model.config.d_mlp, generator=torch.Generator().manual_seed(0))
    candidates = {2: torch.arange(model.config.d_mlp), 3: order}
    base = patch_layers(model, tokens, 2, candidates, given, answers[None], lambda _: None, Readouts())
    monkeypatch.setattr(patching, "rows_at_once", lambda model: rows)
    other = {2: order, 3: torch.arange(model.config.d_mlp)}
    again = patch_layers(model, tokens, 2, other, given, answers[None], lambda _: None, Readouts())
    torch.testing.assert_close(base[2][..., order], again[2], atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(base[3], again[3][..., order], atol=2e-6, rtol=1e-5)


def test_a_number_that_is_none_is_an_error(tiny):
    model, tokenizer = tiny
    tokens, _, answers = prepared(tokenizer, "symbolic")
    cache = build_cache(model, tokens, 2)
    corrupt = torch.full((4, 3), float("nan"))
    with pytest.raises(RuntimeError, match="not a finite number"):
        patch_neurons(model, cache, 2, torch.arange(3), corrupt, answers)


def test_a_replay_that_differs_from_the_ordinary_pass_is_an_error(tiny, monkeypatch):
    model, calls = tiny[0], count()
    tokens, answers = torch.tensor([[0, 5, 6, 7]]), torch.tensor([[[8, 9]]])
    corrupt = last_token_neurons(model, tokens + 1, 2)[None]
    for module in (patching, effects):
        monkeypatch.setattr(module, "log_probabilities", lambda *_: torch.full((1, 5, 2), float(next(calls))))
    with pytest.raises(RuntimeError, match=r"^layer 3: replay differs from the ordinary pass by 1\.0e\+00"):
        patch_layers(model, tokens, 2, {3: torch.arange(4)}, corrupt, answers, lambda _: None, Readouts())
