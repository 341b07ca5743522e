import pytest
import torch
from hugging_face import HuggingFace

from conftest import ROOT
from embedded_training.batches import Problems
from embedded_training.card import predictions
from embedded_training.digits import DigitProblems
from embedded_training.recipe import DIGITS, RECIPES
from embedded_training.routing import neuron_format

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


def test_the_shipped_digit_model_is_right_about_pairs_that_it_has_not_seen(packaged):
    model, _, folder = packaged[DIGITS]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2e6
    problems = DigitProblems(ROOT / "config/digits.yaml", RECIPES[DIGITS])
    for (_, operator), (tokens, answers) in problems.cells.items():
        held = problems.held_out[operator]
        assert (predictions(model, torch.from_numpy(tokens[held]), ablate=False) == answers[held]).mean() > 0.9
