from itertools import count

import numpy as np
import oracles
import pytest
import torch
from small_prompts import prepared

from form_invariance.experiment import indirect_effect as effects
from form_invariance.model.near_readout import Readouts
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.patching import compute as patching

pytestmark = pytest.mark.slow

MODELS = [("tiny", "symbolic"), ("tiny", "word"), ("embedded-shared", "word"), ("embedded-separate", "code")]


@pytest.mark.parametrize(("which", "name"), MODELS)
def test_effects_equal_full_hooked_forward(tiny, tiny_folder, packaged, which, name):
    model, tokenizer, folder = {"tiny": (*tiny, tiny_folder), **packaged}[which]
    tokens, corrupt, answers = prepared(tokenizer, name)
    layers, first, bridge = model.config.n_layers, model.config.n_layers // 2, oracles.bridge(folder)
    neurons = torch.arange(0, model.config.d_mlp, 3 if which == "tiny" else 172)
    cache = build_cache(model, tokens, first)
    given = last_token_neurons(model, corrupt, first)
    largest = 0.0
    for layer in range(first, layers):
        expected = oracles.patched_effects(bridge, tokens, corrupt, answers, layer, neurons.tolist())
        got = patching.patch_neurons(model, cache, layer, neurons, given[layer - first][:, neurons], answers)
        difference = np.abs(got.numpy() - expected)
        # The effect is unbounded: beyond 1 the comparison is relative, as fp32 is. A probability is far below 1.
        limit = 1e-5 * np.maximum(1, np.abs(expected))
        limit[1] = 3e-2 * np.abs(expected[1]).max()
        assert (difference < limit).all(), (layer, difference.max())
        largest = np.maximum(largest, np.abs(expected).max((1, 2)))
    assert (largest > (1e-3, 1e-9)).all(), "the patches did nothing"


def test_a_number_that_is_none_is_an_error(tiny):
    model, tokenizer = tiny
    tokens, _, answers = prepared(tokenizer, "symbolic")
    corrupt = torch.full((4, 3), float("nan"))
    with pytest.raises(RuntimeError, match="not a finite number"):
        patching.patch_neurons(model, build_cache(model, tokens, 2), 2, torch.arange(3), corrupt, answers)


def test_a_replay_that_differs_from_the_ordinary_pass_is_an_error(tiny, monkeypatch):
    model, calls = tiny[0], count()
    tokens, answers = torch.tensor([[0, 5, 6, 7]]), torch.tensor([[[8, 9]]])
    corrupt = last_token_neurons(model, tokens + 1, 2)[None]
    for module in (patching, effects):
        monkeypatch.setattr(module, "log_probabilities", lambda *_: torch.full((1, 5, 2), float(next(calls))))
    with pytest.raises(RuntimeError, match=r"^layer 3: replay differs from the ordinary pass by 1\.0e\+00"):
        patching.patch_layers(model, tokens, 2, {3: torch.arange(4)}, corrupt, answers, lambda _: None, Readouts())
