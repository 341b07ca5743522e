"""A cell with prompts of 5 to 40 tokens: each stage gives what it gives one prompt at a time, and hooks agree."""

import numpy as np
import oracles
import pandas as pd
import pytest
import torch

from form_invariance.beyond.neuron_effects.compute import neuron_effects
from form_invariance.experiment.controls import circuit_set
from form_invariance.experiment.intervene import start
from form_invariance.experiment.neuron_sets import CIRCUIT
from form_invariance.model import memory
from form_invariance.model.batches import by_length
from form_invariance.problems.tasks import TableTask
from form_invariance.stages.attribution.compute import attribute, corrupt_activations
from form_invariance.stages.census.compute import ask, take_census
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.prompts import TrainPrompts, eval_prompts, train_prompts
from form_invariance.stages.interventions.compute import run_cell
from form_invariance.stages.mean_cache import compute as mean_cache
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.transfer.compute import Donors, run_group
from form_invariance.stages.transfer.conditions import Condition, Group

FIRST, PROMPTS = 2, 14
TEMPLATE = "{word} t="
CLOSE = {"atol": 1e-6, "rtol": 1e-5}


@pytest.fixture(scope="module")
def census(run, tmp_path_factory):
    """A census of words of 1 to 36 letters; most are encoded letter by letter."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("bdfgkpt"), 1 + 5 * (row % 8))) + str(row) for row in range(40)]
    answers = [f"{chr(97 + row % 26)}{chr(97 + row // 26)}" for row in range(40)]
    path = tmp_path_factory.mktemp("task") / "task.csv"
    pd.DataFrame({"word": words, "answer": answers}).to_csv(path, index=False)
    return take_census(run.model, run.tokenizer, TEMPLATE, "task", TableTask(path, "answer"), None, 0)


@pytest.fixture(scope="module")
def dataset(census):
    # The model's weights are random, so that nothing is right.
    return make_dataset({"task": (census.assign(correct=True), TEMPLATE)}, "task", Choice(PROMPTS, 6, 2, 0))


@pytest.fixture(scope="module")
def means(run, census):
    return mean_cache.compute(run.model, run.tokenizer, [census["prompt"].tolist()])


def test_answers_are_those_of_each_prompt_alone(run, census):
    for row in range(0, len(census), 3):
        one = census.iloc[row : row + 1]
        alone = ask(run.model, run.tokenizer, one["prompt"].tolist(), one["answer_token"].to_numpy())
        for name, values in alone.items():
            np.testing.assert_allclose(one[name], values, atol=1e-5, rtol=1e-5, err_msg=name)


def test_effects_are_those_of_each_prompt_alone_and_of_hooks(run, dataset, tiny_folder, monkeypatch):
    table, corrupt = dataset
    table = table[table["split"] == "train"].sort_values("index", ignore_index=True)
    draws = [part.reset_index(drop=True) for _, part in corrupt.groupby("corrupt_seed")]
    train = train_prompts(table, draws, run.tokenizer, run.model.device)
    neurons = {layer: torch.arange(0, run.width, 9) for layer in run.late}

    def attributed(some):
        given = corrupt_activations(run, some.partners[0])
        return attribute(run.model, some.tokens, given, some.answers[0], FIRST)

    together, every, bridge = patch_candidates(run, train, neurons), attributed(train), oracles.bridge(tiny_folder)
    for row in range(PROMPTS):
        here, draw = slice(row, row + 1), row // 4 % 2
        (_, tokens) = next(by_length(train.tokens[here], 1))  # without padding
        own = TrainPrompts(tokens, [partners[here] for partners in train.partners], train.answers[:, here])
        torch.testing.assert_close(every[:, here], attributed(own), **CLOSE)
        alone, partner = patch_candidates(run, own, neurons), run.tokens(own.partners[draw])
        for layer, some in neurons.items():
            # An effect is a difference of log-probabilities near 7, which float32 rounds to 5e-7.
            torch.testing.assert_close(together[layer][:, :, here], alone[layer], atol=2e-6, rtol=1e-5)
            if row % 4 == 0:
                given = tokens, partner, own.answers[draw], layer, some.tolist()
                hooked = oracles.patched_effects(bridge, *given)
                np.testing.assert_allclose(together[layer][:, draw, here], hooked, atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(memory, "_CPU_ROWS", (4, 4))  # prompts one by one, their neurons in two pieces
    torch.testing.assert_close(patch_candidates(run, train, neurons), together, atol=2e-6, rtol=1e-5)


def test_the_mean_cache_is_aligned_at_the_last_token(run, census, means, tiny_folder):
    bridge = oracles.bridge(tiny_folder)
    layer, every = 3, {}
    for prompt in census["prompt"]:
        found = oracles.all_neurons(bridge, run.tokens([prompt]), range(layer, layer + 1))[0, 0]
        for place, values in enumerate(found[1:].flip(0)):  # BOS is left out
            every.setdefault(place, []).append(values)
    assert len(means.count) == len(every)
    for place, values in every.items():
        assert means.count[place] == len(values)
        torch.testing.assert_close(means.neurons[layer][place], torch.stack(values).mean(0), atol=1e-5, rtol=1e-5)


def test_ablations_are_those_of_each_prompt_alone(run, dataset, means):
    tokens, answers = eval_prompts(dataset[0], run)
    members = np.random.default_rng(1).random((2, len(run.late), run.width)) < 0.3
    sets = [circuit_set(own, k) for k, own in enumerate(members)]
    together = list(run_cell(start(run, tokens, answers, True), sets, means))
    effects = neuron_effects(run, tokens, answers, members[0], means)
    singles = []
    for row in range(len(tokens)):
        here = slice(row, row + 1)
        (_, own) = next(by_length(tokens[here], 1))
        singles.append(neuron_effects(run, own, answers[here], members[0], means))
        single = run_cell(start(run, own, answers[here], True), sets, means)
        for (*names, whole), (*_, alone) in zip(together, single, strict=True):
            for field in ("normalized_logit", "probability"):
                got, expected = (getattr(one, field) for one in (whole, alone))
                torch.testing.assert_close(got[..., here], expected, **CLOSE, msg=f"{names} {field}")
    expected = np.mean([single["knockout_probability"] for single in singles], axis=0)
    np.testing.assert_allclose(effects["knockout_probability"], expected, atol=1e-8)


def test_a_transfer_is_that_of_each_pair_alone(run, census):
    pairs = census.head(6)[["a", "b", "answer", "prompt", "answer_token"]].reset_index(drop=True)
    given = census["prompt"].iloc[10:16].tolist()
    moved = torch.rand(2, len(run.late), run.width, generator=torch.Generator().manual_seed(0)) < 0.5
    sets = {CIRCUIT: [circuit_set(mask.numpy(), 1) for mask in moved]}

    def transferred(rows):
        some = [given[row] for row in rows]
        condition = Condition("matched", np.arange(len(rows)), "x", some, np.zeros(len(rows), dtype=int))
        group = Group(pairs.iloc[rows].reset_index(drop=True), [condition])
        return run_group(run, group, {"x": Donors(run, given)}, {}, sets, True)["matched"]

    together = transferred(list(range(6)))
    for row in range(6):
        alone = transferred([row])
        torch.testing.assert_close(together.probability[:, row], alone.probability[:, 0], **CLOSE)
