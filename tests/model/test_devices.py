"""Tensors lie where the weights are: a pretended graphics card gives the CPU's numbers, and mixes nothing."""

import dataclasses

import numpy as np
import pytest
import torch
from ablations import at_last_token
from pretended_gpu import CARD, pretended_gpu

from form_invariance.experiment import ablation
from form_invariance.experiment.means import MeanCache
from form_invariance.model.replay import build_cache, log_probabilities, replay, select
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.pairs import grid_prompts, make_grid

FIRST, TOKENS, PROMPTS = 2, 6, 3


def moved(value, device):
    """Weights, or what holds weights, on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [moved(one, device) for one in value]
    if dataclasses.is_dataclass(value):
        parts = {field.name: moved(getattr(value, field.name), device) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value


def assert_same_on_a_card(compute, model, **tolerance):
    """What `compute` makes of a model, and of tensors that its second argument moves, is there and the same."""
    expected = compute(model, lambda tensor: tensor)
    with pretended_gpu():
        found = compute(moved(model, CARD), lambda tensor: tensor.to(CARD))
        assert all(one.device == CARD for one in found)
        there = [one.cpu() for one in found]
    for one, other in zip(there, expected, strict=True):
        torch.testing.assert_close(one, other, **(tolerance or {"rtol": 0, "atol": 0}))


@pytest.fixture(scope="module")
def tokens():
    return torch.randint(0, 20, (PROMPTS, TOKENS), generator=torch.Generator().manual_seed(0))


def test_replay(tiny, tokens):
    def compute(model, there):
        cache = build_cache(model, there(tokens), FIRST)
        some = select(cache, slice(1, 3))
        x = replay(model, some, some.residual[0][:, None].expand(-1, 5, -1), FIRST)
        read = log_probabilities(model, x, there(tokens)[1:, :2])
        return *cache.keys, *cache.values, cache.residual, cache.neurons, x, read

    assert_same_on_a_card(compute, tiny[0])


def test_activation_maps(tiny):
    """Weights on the CPU while torch's own choice is another device."""
    grid, neurons = make_grid("a + b", 4), {1: np.array([3, 60]), 3: np.array([0])}
    model, tokenizer = tiny
    prompts, answers = grid_prompts(grid, tokenizer, "{a}+{b}=", "")
    expected = operand_maps(model, tokenizer, prompts, neurons), answer_logits(model, answers, neurons)
    with torch.device("meta"):
        found = operand_maps(model, tokenizer, prompts, neurons), answer_logits(model, answers, neurons)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_attribution(tiny, tokens):
    c = tiny[0].config
    corrupt = torch.rand(c.n_layers - FIRST, PROMPTS, c.d_mlp, generator=torch.Generator().manual_seed(1))

    def compute(model, there):
        return [attribute(model, there(tokens), there(corrupt), there(torch.tensor([[3, 4]] * PROMPTS)), FIRST)]

    # Where gradients are asked for, the pretended card's attention is another one than the CPU's.
    assert_same_on_a_card(compute, tiny[0], rtol=1e-5, atol=1e-6)


def test_ablation(tiny, tokens):
    c = tiny[0].config
    rng = torch.Generator().manual_seed(2)
    neurons = [torch.rand(TOKENS - 1, c.d_mlp, generator=rng) for _ in range(c.n_layers)]
    heads = [torch.rand(TOKENS - 1, c.n_heads, c.d_head, generator=rng) for _ in range(c.n_layers)]
    masks = torch.rand(2, c.n_layers - FIRST, c.d_mlp, generator=rng) < 0.5

    def compute(model, there):
        means = MeanCache(list(map(there, neurons)), list(map(there, heads)), [], there(torch.empty(TOKENS - 1)))
        answers = there(tokens)[:, 0]
        run = next(ablation.start_runs(model, there(tokens), answers, FIRST))
        readouts = (
            ablation.run_unmodified(model, run, True),
            ablation.run_all_ablated(model, run, means, True),
            ablation.ablate_all_positions(model, run, there(masks), means, True, True),
            at_last_token(model, run, there(masks), means, True),
        )
        return [getattr(readout, field.name) for readout in readouts for field in dataclasses.fields(readout)]

    assert_same_on_a_card(compute, tiny[0])


def test_what_a_card_refuses_the_pretended_one_refuses():
    with pretended_gpu():
        there, here = torch.ones(2, 3, device=CARD), torch.ones(2, 3)
        for forbidden, said in (
            (lambda: there + here, "same device"),
            (lambda: torch.cat([there, here]), "same device"),
            (lambda: there.index_put_((torch.tensor([0]),), here[:1]), "same device"),
            (lambda: there.gather(1, torch.zeros(2, 1, dtype=torch.int64)), "same device"),
            (lambda: there.numpy(), "numpy"),
            (lambda: there.long() @ there.long().T, "multiplies no matrices"),
            (lambda: there.cumsum(1), "another order"),
            (lambda: there.scatter_add(1, torch.zeros(2, 3, dtype=torch.int64).to(CARD), there), "another order"),
            (lambda: there.index_put((torch.tensor([0, 0]),), there, accumulate=True), "another order"),
        ):
            with pytest.raises(RuntimeError, match=said):
                forbidden()
        assert ((there + 1)[torch.tensor([1])].cpu() == 2).all()
