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
from form_invariance.problems.prompts import PAD


@pytest.mark.parametrize(
    ("family", "rows"), [*((family, 40) for family in FAMILIES), ("llama", 1), ("llama", 1000)]
)
def test_runs_with_shared_prefixes_equal_whole_passes(family_folders, family, rows, monkeypatch):
    """Prompts that differ in two tokens, in random order, some of them twice."""
    monkeypatch.setattr(prefixes, "rows_at_once", lambda model: rows)
    model, rng = models.load(family_folders[family]), np.random.default_rng(0)
    tokens = np.tile(rng.integers(0, 60, 7), (25, 1))
    tokens[:, [2, 4]] = list(product(range(5), repeat=2))
    tokens = tokens[rng.permutation(np.r_[:25, 3, 3])]
    for stop in (1, model.config.n_layers):
        both = found, whole = defaultdict(list), defaultdict(list)
        keep, keep_whole = (lambda at, post, to=to: to[at].append(post[:, -1].clone()) or post for to in both)
        with torch.no_grad():
            x = embed(model, torch.from_numpy(tokens))
            residual = run_layers(model, x, stop=stop, on_neurons=keep_whole)[:, -1]
        parts = list(prefixes.run_prompts(model, tokens, stop=stop, on_neurons=keep))
        order = np.concatenate([own for own, _ in parts])
        assert sorted(order) == list(range(len(tokens)))
        assert oracles.rounding(torch.cat([x[:, -1] for _, x in parts]), residual[order]) < 2e-6
        for layer in range(stop):
            assert oracles.rounding(torch.cat(found[layer]), whole[layer][0][order]) < 2e-6


def test_padding_never_runs(tiny):
    with pytest.raises(ValueError, match="padding"):
        embed(tiny[0], torch.tensor([[PAD, 4, 5]]))


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
