"""The dose of transfer: its ends are the transfer table's, and its neurons are chosen as by hand."""

import numpy as np
import pandas as pd
import pytest
import torch
from test_patching import PROMPTS

from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.census.compute import take_census
from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.controls import Draws, labels_of, masks_of
from form_invariance.stages.run import Run
from form_invariance.stages.transfer import figure as transfer_figure
from form_invariance.stages.transfer.answer import dose_answer
from form_invariance.stages.transfer.conditions import only, plan
from form_invariance.stages.transfer.directions import transfer_tables
from form_invariance.stages.transfer.dose import best_first, dose_sets, dose_table, first_of
from form_invariance.stages.transfer.figure import pooled
from form_invariance.stages.transfer.names import NONE
from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets

SAME = ["pairs", "n_neurons", "recovered", "low", "high"]


@pytest.fixture(scope="module")
def measured(packaged, templates):
    """Dose table, and the matched and transferred rows of the same pairs, of a random circuit."""
    model, tokenizer, _ = packaged["embedded-shared"]
    first, k, width, operator = 3, 300, model.config.d_mlp, "multiplication"
    limits = OperandRange(6, 999, 3, 999)
    censuses = {
        name: take_census(
            model,
            tokenizer,
            templates.formats[name]["multiplication"][0],
            "multiplication",
            Arithmetic("a * b", limits),
            600,
            0,
        )
        for name in ("symbolic", "word")
    }
    rng = np.random.default_rng(0)
    layers = np.repeat([3, 4, 5], width)
    ranks = np.concatenate([rng.permutation(width) + 1 for _ in range(3)])
    ranking = pd.DataFrame({"layer": layers, "neuron": np.tile(np.arange(width), 3), "rank": ranks})
    circuit = ranking[ranking["rank"] <= k].drop(columns="rank").assign(k=k)
    plans = plan(censuses, [], 40, 0, operator)
    orders = best_first(circuit, k, {"symbolic": ranking}, range(3, 6))
    run = Run(model, tokenizer, first)
    table = dose_table(run, plans, dose_sets(orders, width, [0, 0.4, 1], 2, 0, operator), True)
    known = measure(run, ranking.assign(ie_mean=0.0), np.ones((3, width)))
    circuits = {k: circuit_members(circuit, k, run.late, width)}
    sets = neuron_sets(run, circuits, dict.fromkeys(censuses, known), operator, Draws(1, 1, 0))
    whole = transfer_tables(run, only(plans, "matched"), {}, sets, True)
    return table, {direction: moved for direction, moved, _ in whole}


def test_the_whole_dose_is_the_matched_transfer(measured):
    table, wanted = measured
    assert table.groupby(["donor", "target"]).ngroups == len(wanted) == 2
    for (donor, target), matched in wanted.items():
        own = table[(table["donor"] == donor) & (table["target"] == target)]
        matched = matched.iloc[0]
        assert matched["pairs"] >= 10
        assert 0 < matched["recovered"]
        assert len(own[own["dose"] == 1]) == 4
        for _, row in own[own["dose"] == 1].iterrows():
            assert row[SAME].tolist() == matched[SAME].tolist()
            assert row["normalized_logit"] == pytest.approx(matched["normalized_logit_after"], abs=1e-6)
        nothing = own[own["dose"] == 0]
        assert nothing["recovered"].eq(0).all()
        assert nothing["n_neurons"].eq(0).all()
        np.testing.assert_allclose(nothing["normalized_logit"], matched["normalized_logit_before"], atol=1e-6)


def test_a_part_of_the_dose_lies_between(measured):
    table, _ = measured
    part, whole = (table[table["dose"] == dose].groupby("kind")["recovered"].mean() for dose in (0.4, 1))
    assert (part <= whole).all()
    assert (part < whole).any()
    assert table.query("dose == 0.4 and kind == 'strength'")["n_neurons"].eq(900).all()
    assert table.query("dose == 0.4 and kind != 'strength'")["n_neurons"].eq(360).all()


def test_the_best_come_first():
    circuit = pd.DataFrame({"k": 2, "layer": [3, 3, 3, 4], "neuron": [5, 1, 7, 2]})
    rankings = {
        "symbolic": pd.DataFrame({"layer": [3, 3, 3, 3, 4], "neuron": [1, 5, 7, 0, 2], "rank": [4, 1, 2, 3, 1]}),
        "word": pd.DataFrame({"layer": [3, 3, 3, 3, 4], "neuron": [1, 5, 7, 0, 2], "rank": [1, 4, 2, 3, 1]}),
    }
    orders = best_first(circuit, 2, rankings, range(3, 6))
    # Mean ranks: 7 has 2, 1 and 5 have 2.5 each, so that the index decides.
    assert [order.tolist() for order in orders] == [[7, 1, 5], [2], []]
    assert [set(np.flatnonzero(row)) for row in first_of(orders, 0.5, 9)] == [{7, 1}, {2}, set()]
    assert [set(np.flatnonzero(row)) for row in first_of(orders, 0.4, 9)] == [{7}, set(), set()]


def test_random_orders_stay_inside_the_circuit_and_grow():
    orders = [np.array([7, 1, 5, 3]), np.array([2, 8])]
    circuit = first_of(orders, 1, 10)
    sets = dose_sets(orders, 10, [0, 0.25, 0.5, 1], 3, 0, "addition")
    settings, shares = labels_of(sets), masks_of(sets)
    assert settings["seed"][settings["kind"] != "neurons_random"].eq(NONE).all()
    random = settings[settings["kind"] == "neurons_random"]
    assert len(random) == 12
    for _, draw in random.groupby("seed"):
        chosen = shares[draw.sort_values("dose").index]
        assert chosen.sum((1, 2)).tolist() == [0, 2, 3, 6]
        assert (np.diff(chosen, axis=0) >= 0).all()
        assert (chosen <= circuit).all()
    half = shares[random[random["dose"] == 0.5].index]
    assert not (half == half[0]).all()
    assert (masks_of(dose_sets(orders, 10, [0, 0.25, 0.5, 1], 3, 0, "addition")) == shares).all()
    strength = shares[settings[settings["kind"] == "strength"].index]
    assert torch.equal(torch.from_numpy(strength[2]), torch.from_numpy(0.5 * circuit))


def test_without_a_circuit_no_dose_is_defined(tiny):
    run = Run(*tiny, first=2)
    pairs = [(a, b) for a in range(6, 12) for b in range(6, 9)]
    table = pd.DataFrame(pairs, columns=["a", "b"])
    table = table.assign(answer=table["a"] + table["b"], uniform=True, predicted_token=0, answer_token=1)
    censuses = {
        name: table.assign(prompt=[PROMPTS[name].format(a=a, b=b) for a, b in pairs], correct=name == "word")
        for name in ("symbolic", "word")
    }
    empty = [np.array([], dtype=int)] * 2
    shares = dose_sets(empty, run.width, [0, 1], 1, 0, "addition")
    found = dose_table(run, plan(censuses, [], 5, 0, "addition"), shares, True)
    assert found["pairs"].max() == 5
    assert found["n_neurons"].eq(0).all()
    assert found[["recovered", "low", "high", "normalized_logit"]].isna().all(axis=None)
    found = found.assign(operator="+", k=50)
    assert pooled(found)["recovered"].isna().all()
    figure = transfer_figure.dose({"dose": found}, "m", 10)
    assert all(axes.get_title().endswith(", no shared neuron") for axes in figure.axes)
    assert dose_answer(found).sentence == "No neuron is shared (k = 50), so there is nothing to transfer."


def made_up(pairs, strengths):
    """A dose table of one direction: recovery at doses 0, 0.5, 1 of strength; none before 1 of the others."""
    rows = [
        ("strength", NONE, *zip([0, 0.5, 1], strengths, strict=True)),
        ("neurons", NONE, (0, 0), (0.5, 0), (1, strengths[-1])),
        *(("neurons_random", seed, (0, 0), (0.5, 0.1 * seed), (1, strengths[-1])) for seed in (0, 1)),
    ]
    table = pd.DataFrame(
        [(kind, seed, dose, value) for kind, seed, *points in rows for dose, value in points],
        columns=["kind", "seed", "dose", "recovered"],
    )
    table = table.assign(donor="s", target="w", k=50, pairs=pairs, n_neurons=1, centered=True)
    return table.assign(low=0.0, high=1.0, normalized_logit=1.0).astype({"dose": float, "recovered": float})


def test_operators_are_pooled_by_pairs():
    tables = {"+": made_up(30, [0, 0.5, 1]), "-": made_up(10, [0, 0.1, 0.2]), "/": made_up(0, [np.nan] * 3)}
    joined = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    table = pooled(joined).set_index(["kind", "dose"])
    assert table["pairs"].eq(40).all()
    assert table.loc[("strength", 0.5), "recovered"] == pytest.approx((15 + 1) / 40)
    assert table.loc[("neurons_random", 0.5), "recovered"] == pytest.approx(0.05)
    assert ((table["low"] <= table["recovered"]) & (table["recovered"] <= table["high"])).all()


@pytest.mark.parametrize(
    ("strengths", "words"),
    [([0, 0.45, 0.8], ["corrects 80%", "moves 50% of", "if 100% of"]), ([0, 0, 0], ["corrects 0%", "no effect"])],
)
def test_the_answer_follows_the_numbers(strengths, words):
    sentence = dose_answer(made_up(20, strengths).assign(operator="+")).sentence
    assert all(word in sentence for word in words), sentence
