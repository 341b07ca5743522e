"""Each digit has neurons of its own in a model that was written down: they are found, and knocked out alone."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from digit_circuits import TEMPLATES, TENS, UNITS, planted, write_model
from planted_models import LATE, PLANTED, WIDTH

from form_invariance.beyond.family_knockout.compute import carriers, cell_pairs, losses, paired_sets, right_prompts
from form_invariance.beyond.family_knockout.table import ALL
from form_invariance.beyond.specificity.compute import damages
from form_invariance.beyond.specificity.tasks import Task
from form_invariance.experiment.controls import circuit_set
from form_invariance.experiment.run import Run
from form_invariance.model import loading
from form_invariance.model.batches import by_length
from form_invariance.model.tokenizers import load_tokenizer
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.randomness import generator
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.dataset.compute import Choice, make_dataset
from form_invariance.stages.dataset.prompts import eval_prompts, train_prompts
from form_invariance.stages.heuristics.names import SHARED, family
from form_invariance.stages.heuristics.pairs import make_digit_grid
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.probe import compute as probe
from form_invariance.stages.probe.summary import curve

LIMITS = OperandRange(10, 99, 10, 99)
NAMES = {TENS: "tens", UNITS: "units"}
CELLS = list(product(TEMPLATES, NAMES))


@pytest.fixture(scope="module", params=[True, False], ids=["shared", "separate"])
def shared(request):
    return request.param


@pytest.fixture(scope="module")
def run(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "model"
    write_model(folder, shared, seed=0)
    return Run(loading.load(folder), load_tokenizer(folder), LATE[0])


@pytest.fixture(scope="module")
def censuses(run):
    """The census of all pairs, by format and digit."""
    return {
        (name, digit): take_census(
            run.model, run.tokenizer, TEMPLATES[name], NAMES[digit], Arithmetic("a + b", LIMITS, digit), None, 0
        )
        for name, digit in CELLS
    }


@pytest.fixture(scope="module")
def datasets(censuses):
    choice = Choice(20, 20, 2, 0)
    return {
        cell: make_dataset({NAMES[cell[1]]: (census, TEMPLATES[cell[0]])}, NAMES[cell[1]], choice)
        for cell, census in censuses.items()
    }


@pytest.fixture(scope="module")
def effects(run, datasets):
    """Mean exact effects of every late neuron, (late layers, m), by format and digit."""
    every = {layer: torch.arange(WIDTH) for layer in LATE}
    found = {}
    for cell, (table, corrupt) in datasets.items():
        own = table[table["split"] == "train"].sort_values("index", ignore_index=True)
        draws = [part.reset_index(drop=True) for _, part in corrupt.groupby("corrupt_seed")]
        train = train_prompts(own, draws, run.tokenizer, run.model.device)
        exact = patch_candidates(run, train, every)
        found[cell] = torch.stack([exact[layer][0].mean((0, 1)) for layer in LATE]).numpy()
    return found


def test_the_units_are_right_and_the_tens_without_a_carry(censuses):
    for (_, digit), census in censuses.items():
        assert len(census) == 3240
        without_carry = census["carry"] == 0
        assert 0.4 < without_carry.mean() <= 1
        assert (census["correct"] == (without_carry if digit == TENS else True)).all()
        # The whole answer is right if the tens are.
        right = (census["a"] % 10 + census["b"] % 10) < 10
        assert (census["whole_correct"] == right).all()


def test_probes_read_each_digit_from_the_layer_that_computes_it(run, censuses):
    """Layer 0 adds up the digits of a place, which is the tens' answer. Layer 1 takes 10 from a sum above 9."""
    for name in TEMPLATES:
        given = {(name, NAMES[digit]): censuses[name, digit] for digit in NAMES}
        chosen = probe.choose_prompts(given, 800, 0)
        table = probe.run(run.model, run.tokenizer, chosen, 0)
        tens, units = (curve(table, NAMES[digit]).set_index("layer")["accuracy"] for digit in (TENS, UNITS))
        assert tens.min() > 0.95
        assert units[0] < 0.7
        assert units[1:].min() > 0.95
        assert (table["reachable"] == 1).all()
        assert table.loc[table["position"] > 0, "accuracy"].max() < 0.5  # no other token sees both digits
        assert set(probe.token_labels(run.tokenizer, chosen)) > {"{a}", "{b}"}


def test_each_digits_neurons_are_found_exactly(effects, shared):
    circuits = planted(shared, seed=0)
    for (name, digit), found in effects.items():
        for row, layer in zip(found, LATE, strict=True):
            own = circuits[name, digit, layer]
            assert sorted(np.argsort(-row)[:PLANTED].tolist()) == own
            rest = np.delete(row, own)
            assert np.abs(rest).max() < 1e-3 * row[own].min()


def test_formats_share_the_units_and_digits_share_nothing(effects, shared):
    top = {
        cell: {tuple(place) for place in np.argwhere(found > found.max() / 20)} for cell, found in effects.items()
    }
    assert {len(own) for own in top.values()} == {PLANTED * len(LATE)}
    for name, other in product(TEMPLATES, TEMPLATES):
        assert not top[name, TENS] & top[other, UNITS]
        assert top[name, UNITS] == top[other, UNITS]
        assert (top[name, TENS] == top[other, TENS]) == (shared or name == other)


def test_a_knockout_of_one_digit_spares_the_other(run, datasets, shared):
    circuits = planted(shared, seed=0)
    for name in TEMPLATES:
        masks = {digit: np.zeros((len(LATE), WIDTH), dtype=bool) for digit in NAMES}
        for digit, (row, layer) in product(NAMES, enumerate(LATE)):
            masks[digit][row, circuits[name, digit, layer]] = True
        sets = [circuit_set(mask, PLANTED) for mask in masks.values()]
        for digit in NAMES:
            tokens, answers = eval_prompts(datasets[name, digit][0], run.tokenizer, run.model.device)
            assert len(list(by_length(tokens, len(tokens)))) == 1
            means = last_token_means(run.model, tokens, run.first)
            task = Task(NAMES[digit], tokens, answers, means, [(place,) for place in range(len(tokens))])
            found = {one.intervention: one.damage for one in damages(run, name, task, sets, 50, 0, True)}
            own, other = digit, 1 - digit
            assert found["knockout"]["accuracy"][own].mean() > 0.7
            assert (found["knockout"]["accuracy"][other] == 0).all()
            np.testing.assert_allclose(found["knockout"]["probability"][other], 0, atol=1e-4)
            # And a circuit alone is enough for its own digit.
            np.testing.assert_allclose(found["keep_only"]["probability"][own], 0, atol=1e-3)
            assert found["keep_only"]["accuracy"][other].mean() > 0.7


def test_family_knockout_asks_digits_and_finds_rules_that_matter_where_they_hold(run, datasets, shared):
    """The tens' neurons matter in every prompt; an idle neuron whose rule holds where theirs does not, in none."""
    circuits, tables = planted(shared, seed=0), [datasets[name, TENS][0] for name in TEMPLATES]
    grid = make_digit_grid(Arithmetic("a + b", LIMITS, TENS), 70)
    idle = min(set(range(WIDTH)) - {*circuits["code", TENS, LATE[0]], *circuits["code", UNITS, LATE[0]]})
    low, high = "op1_range_0_30", "op1_range_30_100"
    rows = [(LATE[0], neuron, low) for neuron in circuits["code", TENS, LATE[0]]]
    labels = pd.DataFrame([*rows, (LATE[0], idle, high)], columns=["layer", "neuron", "heuristic"])
    labels["family"] = labels["heuristic"].map(family)

    prompts = right_prompts(run, TEMPLATES["code"], grid, tables, 100, 0, "tens")
    assert len(prompts.tokens) > 100
    texts = [TEMPLATES["code"].format(a=a, b=b) for a, b in zip(prompts.pairs.a, prompts.pairs.b, strict=True)]
    assert torch.equal(prompts.tokens, run.tokens(texts))
    sums = prompts.pairs.a + prompts.pairs.b
    assert prompts.pairs.answer.tolist() == [int(str(one)[0]) for one in sums]
    assert torch.equal(prompts.answers, run.answer_tokens(prompts.pairs.answer))
    train = pd.concat(table[table["split"] == "train"] for table in tables)
    ranked = set(map(frozenset, train[["a", "b"]].to_numpy()))
    pairs = zip(prompts.pairs.a.tolist(), prompts.pairs.b.tolist(), strict=True)
    assert not ranked & set(map(frozenset, pairs))

    tried = dict(cell_pairs(run, prompts, {SHARED: labels}, ("code", "tens"), True, 50, 0))
    # Where the planted neurons' rule holds, one of them is compared with the idle one; elsewhere it is reversed.
    assert tried[SHARED, ALL, "probability"].ablated == 1
    every = next(some for some in carriers(labels, prompts.pairs) if some.family == ALL)
    both = paired_sets(every, generator(0, "family-knockout", "code", "tens", SHARED, ALL))
    first, second = losses(run, prompts, [(every, chosen) for chosen in both], True)["probability"]
    values = first - second
    pair = tried[SHARED, ALL, "probability"].pair
    assert pair.first[0] - pair.second[0] == pytest.approx(values.mean(), abs=1e-6)
    holds = prompts.pairs.a < 30
    assert (values[holds] > 0).mean() > 0.9
    assert (values[~holds] < 0).mean() > 0.9
