import dataclasses

import pytest
import torch
from hugging_face import HuggingFace

from conftest import ROOT
from embedded_training.batches import Problems
from embedded_training.card import predictions
from embedded_training.digits import DigitProblems
from embedded_training.recipe import DIGITS, RECIPES
from embedded_training.routing import neuron_format
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.census.compute import take_census

pytestmark = pytest.mark.slow


def test_foreign_neurons_are_silent(packaged, templates):
    (model, _, folder), recipe = packaged["embedded-separate"], RECIPES["embedded-separate"]
    problems, theirs = Problems(templates, recipe), HuggingFace(folder)
    owner, ids = torch.from_numpy(neuron_format(recipe, 3)), problems.number_ids
    for number, name in enumerate(problems.formats):
        for index in range(3):
            tokens = problems.tokens[name, "addition", index].fill(ids[[5, 999, 40]], ids[[17, 0, 41]])
            seen = theirs.neurons(torch.from_numpy(tokens))[model.config.n_layers // 2 :, :, -1]
            assert seen[..., owner != number].abs().max() < 1e-6
            assert seen[..., owner == number].abs().max() > 1e-4


@pytest.mark.parametrize("name", sorted(set(RECIPES) - {DIGITS}))
def test_shipped_models_are_small_and_can_do_arithmetic(packaged, templates, name):
    model, tokenizer, folder = packaged[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 10e6
    task = Arithmetic("a + b", OperandRange(6, 99, 3, 999))
    for format_name, by_operator in templates.formats.items():
        table = take_census(model, tokenizer, by_operator["addition"][0], "addition", task, 200, 0)
        assert table["correct"].mean() > 0.6, format_name


TINY_DIGITS = dataclasses.replace(RECIPES[DIGITS], steps=6, n_layers=2, d_mlp=12, pairs=(8, 8, 8, 8))


def test_the_digits_of_a_held_out_pair_are_never_trained():
    digit_problems = DigitProblems(ROOT / "config/digits.yaml", TINY_DIGITS)
    held = digit_problems.held_out
    assert (held["sum_tens"] == held["sum_units"]).all()
    assert (held["difference_tens"] == held["difference_units"]).all()
    assert 0.03 < held["sum_tens"].mean() < 0.07
    hidden = [tokens[held[operator]] for (_, operator), (tokens, _) in digit_problems.cells.items()]
    trained = [tokens for step in range(20) for tokens, _ in digit_problems.batch(step)]
    never, seen = ({tuple(row) for tokens in some for row in tokens.tolist()} for some in (hidden, trained))
    assert never
    assert not never & seen


def test_the_shipped_digit_model_is_right_about_pairs_that_it_has_not_seen(packaged):
    model, _, folder = packaged[DIGITS]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2e6
    problems = DigitProblems(ROOT / "config/digits.yaml", RECIPES[DIGITS])
    for (_, operator), (tokens, answers) in problems.cells.items():
        held = problems.held_out[operator]
        assert (predictions(model, torch.from_numpy(tokens[held]), ablate=False) == answers[held]).mean() > 0.9
