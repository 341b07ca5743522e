"""Replay against the ordinary forward pass."""

import pytest
import torch

from conftest import FAMILIES
from form_invariance import decoder, models
from form_invariance.replay import build_cache, log_probabilities, replay, select

FIRST = 2


def tokens_of(model, prompts: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(0, model.config.vocabulary, (prompts, length), generator=generator)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [1, 5, 27])
def test_every_start_gives_the_ordinary_logits(family_folders, family, length):
    model = models.load(family_folders[family])
    tokens = tokens_of(model, 3, length)
    full = decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens)))[:, -1]
    cache = build_cache(model, tokens, FIRST)
    for start in range(FIRST, model.config.n_layers + 1):
        before = cache.residual[start - FIRST][:, None].expand(-1, 4, -1)
        got = decoder.logits(model, replay(model, cache, before, start))
        torch.testing.assert_close(got, full[:, None].expand(-1, 4, -1), atol=2e-5, rtol=1e-5)


def test_a_changed_last_token_equals_the_ordinary_pass_with_the_same_change(tiny):
    model, _ = tiny
    tokens = tokens_of(model, 3, 11)
    change = torch.randn(3, 7, model.config.d_model, generator=torch.Generator().manual_seed(0))
    cache = build_cache(model, tokens, FIRST)
    got = replay(model, cache, cache.residual[0][:, None] + change, FIRST)
    x = decoder.run_layers(model, decoder.embed(model, tokens), stop=FIRST)
    for variant in range(7):
        y = x.clone()
        y[:, -1] += change[:, variant]
        expected = decoder.run_layers(model, y, FIRST)[:, -1]
        torch.testing.assert_close(got[:, variant], expected, atol=2e-5, rtol=1e-4)


def test_variants_and_prompts_do_not_see_each_other(tiny):
    model, _ = tiny
    cache = build_cache(model, tokens_of(model, 3, 8), FIRST)
    x = cache.residual[0][:, None] + torch.randn(3, 5, model.config.d_model)
    base = replay(model, cache, x, FIRST)
    changed = x.clone()
    changed[1, 2] += 10
    after = replay(model, cache, changed, FIRST)
    same = torch.ones(3, 5, dtype=torch.bool)
    same[1, 2] = False
    torch.testing.assert_close(after[same], base[same], atol=1e-6, rtol=1e-6)
    assert (after[1, 2] - base[1, 2]).abs().max() > 0.1
    alone = replay(model, select(cache, slice(1, 2)), x[1:2], FIRST)
    torch.testing.assert_close(alone[0], base[1], atol=1e-5, rtol=1e-5)


def test_log_probabilities_in_pieces_equal_log_softmax(tiny, monkeypatch):
    model, _ = tiny
    x = torch.randn(3, 5, model.config.d_model)
    tokens = torch.tensor([[1, 2], [3, 3], [7, 0]])
    expected = decoder.logits(model, x).log_softmax(-1)
    expected = torch.stack([expected[row][:, tokens[row]] for row in range(3)])
    torch.testing.assert_close(log_probabilities(model, x, tokens), expected, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr("form_invariance.replay._READOUT_BYTES", 1)
    torch.testing.assert_close(log_probabilities(model, x, tokens), expected, atol=1e-5, rtol=1e-5)


def test_the_cache_keeps_grouped_heads_and_one_token_less(tiny):
    model, _ = tiny
    cache = build_cache(model, tokens_of(model, 2, 6), FIRST)
    assert cache.keys[0].shape == (2, model.config.n_key_value_heads, model.config.d_head, 5)
    assert cache.values[0].shape == (2, model.config.n_key_value_heads, 5, model.config.d_head)
