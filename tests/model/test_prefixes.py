"""Prompts whose beginnings run once: against whole forward passes, counting, and enumeration."""

from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import oracles
import pytest
import torch

from conftest import FAMILIES
from form_invariance.model import loading as models
from form_invariance.model import prefixes
from form_invariance.model.decoder import embed, run_layers


def grid(length=7, first=2, second=4, values=5):
    """Prompts that differ in two tokens, in random order, some of them twice."""
    rng = np.random.default_rng(0)
    tokens = np.tile(rng.integers(0, 60, length), (values * values, 1))
    tokens[:, [first, second]] = list(product(range(values), range(values)))
    return tokens[rng.permutation(np.r_[: len(tokens), 3, 3])]


def whole(model, tokens, stop):
    """The last token's residual stream and every layer's neurons there, from ordinary passes."""
    seen, x = [], embed(model, torch.from_numpy(tokens))
    with torch.no_grad():
        x = run_layers(model, x, stop=stop, on_neurons=lambda _, post: seen.append(post[:, -1].clone()) or post)
    return x[:, -1], torch.stack(seen)


@pytest.mark.parametrize(
    ("family", "rows"), [*((family, 40) for family in FAMILIES), ("llama", 1), ("llama", 1000)]
)
def test_equal_to_whole_passes(family_folders, family, rows, monkeypatch):
    monkeypatch.setattr(prefixes, "rows_at_once", lambda model: rows)
    model = models.load(family_folders[family])
    tokens = grid()
    for stop in (1, model.config.n_layers):
        residual, seen = whole(model, tokens, stop)
        found = defaultdict(list)

        def keep(layer, post):
            found[layer].append(post[:, -1])
            return post

        parts = list(prefixes.run_prompts(model, tokens, stop=stop, on_neurons=keep))
        order = np.concatenate([own for own, _ in parts])
        assert sorted(order) == list(range(len(tokens)))
        assert oracles.rounding(torch.cat([x[:, -1] for _, x in parts]), residual[order]) < 2e-6
        for layer in range(stop):
            assert oracles.rounding(torch.cat(found[layer]), seen[layer][order]) < 2e-6


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_that_with_the_fewest_tokens(seed):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, rng.integers(1, 4), (int(rng.integers(1, 30)), int(rng.integers(1, 7))))
    chosen = prefixes.plan(tokens)
    length = tokens.shape[1]

    def cost(cut):
        return len({tuple(row[:cut]) for row in tokens.tolist()}) * cut + len(tokens) * (length - cut)

    assert chosen.cut < length
    assert cost(chosen.cut) == min(map(cost, range(length)))
    assert chosen.tokens == cost(chosen.cut)
    beginnings = tokens[chosen.order, : chosen.cut].tolist()
    assert chosen.new.tolist() == [True, *(one != other for one, other in pairwise(beginnings))]
    assert sorted(chosen.order) == list(range(len(tokens)))
