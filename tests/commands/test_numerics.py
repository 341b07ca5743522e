"""Numbers at their limits: what is not a number, zero, certain, tied or alone has a defined result."""

import copy

import numpy as np
import pytest
import torch

from form_invariance.errors import UserError
from form_invariance.experiment import ablation, intervene, readout
from form_invariance.model.replay import last_token_neurons
from form_invariance.stages.attribution import compute as attribution
from form_invariance.stages.heuristics.activations import operand_maps
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.patching.ranking import rank_cell
from form_invariance.statistics import normal_interval

PROMPTS = ["6+7=", "12+8=", "9+9="]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_ends_the_stage(tiny, value):
    model, tokenizer = tiny
    bad = copy.deepcopy(model)
    bad.layers[-1].down[0, 0] = value
    tokens = torch.from_numpy(tokenizer.encode_batch(PROMPTS))
    answers = torch.from_numpy(tokenizer.number_tokens([13, 20, 18]))
    means = mean_cache.compute(model, tokenizer, [PROMPTS])
    run = next(ablation.start_runs(bad, tokens, answers, 2))
    masks, given = torch.zeros(1, 2, model.config.d_mlp, dtype=torch.bool), means.last_token(2)
    pairs = torch.stack([answers, answers.roll(1)], dim=1)
    corrupt = last_token_neurons(model, tokens.roll(1, 0), 2)
    for what, stage in (
        ("the model's logits", lambda: ablation.run_unmodified(bad, run, True)),
        ("the model's logits", lambda: intervene.read_replaced(bad, run.last_token, answers, masks, given, True)),
        ("the model's logits", lambda: ablation.ablate_all_positions(bad, run, masks, means, True, True)),
        ("these", lambda: readout.check_finite(torch.tensor([1, value]), "these")),
        ("the attributions", lambda: attribution.attribute(bad, tokens, corrupt, pairs, 2)),
    ):
        with pytest.raises(UserError, match=f"^{what} are not finite numbers in torch.float32; use"):
            stage()
    first = copy.copy(model)
    first.embedding = model.embedding * value
    with pytest.raises(UserError, match=r"^the mean activations are"):
        mean_cache.compute(first, tokenizer, [PROMPTS])
    with pytest.raises(UserError, match=r"^the activations are"):
        operand_maps(first, tokenizer, ["6+7="], {1: np.array([0])})


def test_certain_and_impossible_answers_give_finite_numbers(tiny):
    """Probabilities are exactly 1 and 0, or logits are all equal."""
    model, _ = tiny
    d, vocabulary = model.config.d_model, model.config.vocabulary
    flat = copy.copy(model)
    flat.unembedding = torch.zeros(vocabulary, d)
    x = torch.ones(2, d)
    for center in (True, False):
        found = readout.read_out(flat, x, torch.tensor([0, 5]), center)
        assert found.normalized_logit.tolist() == [1, 1]
        np.testing.assert_allclose(found.probability, 1 / vocabulary)
        assert found.correct.tolist() == [True, False], "ties go to the smaller token"
    flat.unembedding[3] = 1e6
    found = readout.read_out(flat, x, torch.tensor([3, 5]), True)
    assert found.probability.tolist() == [1, 0]
    assert found.normalized_logit[0] == 1
    assert torch.isfinite(found.normalized_logit).all()


def test_one_prompt_ranks():
    effects = np.array([[[0.1, 0.3, 0.3]]], dtype=np.float32)
    tensors = {"effects.2": effects, "candidates.2": np.array([4, 9, 1]), "probability_change.2": np.zeros(3)}
    table = rank_cell(tensors, attribution.attribution_table(np.zeros((1, 1, 10)), 2, 10).assign(layer=2))
    assert table.sort_values("rank")["neuron"].tolist() == [1, 9, 4]
    assert table["ie_std"].tolist() == [0, 0, 0]
    assert np.isnan(normal_interval(0.5, np.array([0.5]))).all()
    some = np.array([0.4, 0.7, 0.5])
    assert normal_interval(0.5, np.append(some, np.nan)) == normal_interval(0.5, some)
