"""Tensors lie where the weights are: a pretended graphics card gives the CPU's numbers, and mixes nothing."""

import numpy as np
import pytest
import torch
from pretended_gpu import CARD, pretended_gpu

from form_invariance.stages.heuristics.activations import answer_logits, operand_maps
from form_invariance.stages.heuristics.pairs import grid_prompts, make_grid

FIRST, TOKENS, PROMPTS = 2, 6, 3


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
