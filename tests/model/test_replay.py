from dataclasses import replace

import oracles
import pytest
import torch

from conftest import FAMILIES
from form_invariance.model import decoder, prefixes
from form_invariance.model import loading as models
from form_invariance.model import replay as replay_module
from form_invariance.model.replay import build_cache, log_probabilities, replay

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


@pytest.mark.parametrize(("family", "first"), [*((family, 2) for family in FAMILIES), ("llama", 0)])
def test_worked_examples_that_prompts_share_run_once_in_pieces_of_prompts(
    family_folders, family, first, monkeypatch
):
    model = models.load(family_folders[family])
    tokens = torch.randint(5, 60, (5, 12), generator=torch.Generator().manual_seed(0))
    assert prefixes.shared_beginning(tokens) == 0
    tokens[:, :8] = tokens[0, :8].clone()
    assert prefixes.shared_beginning(tokens) == 8
    with monkeypatch.context() as patch:
        patch.setattr(replay_module, "shared_beginning", lambda tokens: 0)
        whole = build_cache(model, tokens, first)
    seen = set()

    def run_layers(model, x, *own, **how):
        seen.add(tuple(x.shape[:2]))
        return decoder.run_layers(model, x, *own, **how)

    monkeypatch.setattr(replay_module, "run_layers", run_layers)
    monkeypatch.setattr(replay_module, "_PASS_BYTES", 4 * model.config.d_mlp * 4 * 2)
    found = build_cache(model, tokens, first)
    assert seen == {(2, 4), (1, 4)}
    assert found.position == whole.position == 11
    for name in ("keys", "values", "residual", "neurons"):
        for one, other in zip(getattr(found, name), getattr(whole, name), strict=True):
            assert oracles.rounding(one, other) < 2e-6, name


def test_half_precision_is_kept(tiny_folder):
    model = models.load(tiny_folder, dtype=torch.bfloat16)
    tokens = tokens_of(model, 2, 6)
    cache = build_cache(model, tokens, FIRST)
    got = replay(model, cache, cache.residual[0][:, None], FIRST)
    assert got.dtype == cache.residual.dtype == cache.neurons.dtype == torch.bfloat16
    torch.testing.assert_close(got[:, 0], cache.residual[-1], atol=0.1, rtol=0.05)
    assert log_probabilities(model, got, tokens[:, :2]).dtype == torch.float32


@pytest.mark.parametrize("scale", [1, 1e4])
@pytest.mark.parametrize("logits", [16, 10**6])
def test_log_probabilities_in_pieces_equal_log_softmax(tiny, monkeypatch, logits, scale):
    """This holds even if the sum of exp would overflow."""
    pieces = []

    def unembed(model, normed, rows):
        pieces.append(len(normed) * len(rows))
        return decoder.unembed(model, normed, rows)

    monkeypatch.setattr(replay_module, "unembed", unembed)
    monkeypatch.setattr(replay_module, "_READOUT_BYTES", 4 * logits)
    model = replace(tiny[0], unembedding=scale * tiny[0].unembedding)
    x = torch.randn(3, 5, model.config.d_model, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[1, 2], [3, 3], [7, 0]])
    found = log_probabilities(model, x, tokens)
    expected = decoder.logits(model, x).double().log_softmax(-1)
    expected = expected.gather(-1, tokens[:, None].expand(-1, 5, -1)).float()
    assert (expected.min() < -1000) == (scale > 1)
    torch.testing.assert_close(found, expected, atol=1e-5 if scale == 1 else 1e-2, rtol=1e-5)
    pieces.pop()  # the answers'
    assert max(pieces) <= logits
    # Large logits are read a second time.
    assert sum(pieces) == 15 * model.config.vocabulary * (1 + (scale > 1 and logits < 10**6))
