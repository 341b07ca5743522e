"""The verdicts' nulls: what is put in the circuit's place, and that true nulls are rarely rejected."""

import numpy as np
import pandas as pd
import pytest
from test_interventions_contrasts import made_up

from form_invariance.stages.summary import nulls
from form_invariance.stages.summary.table import NULLS
from form_invariance.stages.transfer.names import DRAWN

PROMPTS = 25


def test_a_control_takes_the_circuits_place_and_the_circuit_is_gone():
    cells = {("word", "+"): made_up(0), ("code", "+"): made_up(1)}
    trials = list(nulls.ablation_trials(cells, 50, 0))
    # Only the uniform control has three draws or more, four: two sizes, two interventions, three metrics.
    assert len(trials) == 4 * 2 * 2 * 3
    without = {}
    for cell, (summary, prompts, dataset) in cells.items():
        others = (prompts["neurons"] == "circuit") | prompts["neurons"].str.startswith("random_")
        without[cell] = summary, prompts.assign(probability=prompts["probability"].mask(others)), dataset
    assert list(nulls.ablation_trials(without, 50, 0)) == trials


def equal_draws(rng, effect=0.0):
    """Tables by prompt in which a control's draws differ by chance alone; `effect` is added to the first one."""
    rows = [("good", "none", 0, -1, prompt, 1.0) for prompt in range(PROMPTS)]
    for how in ("keep_only", "knockout"):
        for draw, strength in enumerate(rng.normal(0.5, 0.1, 6)):
            values = strength + 0.05 * rng.normal(size=PROMPTS) + effect * (draw == 0)
            rows += [(how, "random", 10, draw, prompt, value) for prompt, value in enumerate(values)]
    table = pd.DataFrame(rows, columns=["intervention", "neurons", "k", "seed", "index", "probability"])
    summary = pd.DataFrame({"intervention": ["keep_only"], "positions": "all", "means": "format"})
    summary = summary.assign(neurons="circuit", k=10, n_neurons=5)
    dataset = pd.DataFrame({"split": "eval", "index": range(PROMPTS), "a": range(PROMPTS), "b": 0})
    return summary, table.assign(positions="all", means="format", correct=True, faithfulness=1.0), dataset


def test_a_control_that_is_one_of_many_is_rarely_told_from_them():
    rng, words = np.random.default_rng(0), []
    for _ in range(25):
        cells = {(form, "+"): equal_draws(rng) for form in ("a", "b", "c")}
        words += [one["verdict"] for one in nulls.ablation_trials(cells, 100, 0) if one["metric"] == "probability"]
    assert len(words) == 25 * 6 * 2
    assert words.count("yes") <= 0.05 * len(words)
    assert words.count("no") <= 0.05 * len(words)
    cells = {(form, "+"): equal_draws(rng, effect=1.0) for form in ("a", "b", "c")}
    first = [one for one in nulls.ablation_trials(cells, 100, 0) if one["metric"] == "probability"][:2]
    assert [one["verdict"] for one in first] == ["yes", "no"], "kept more, and lost less"


def pairs_of(rng):
    """A transfer table by pair in which the matched donor corrects all, and its answer always comes out."""
    conditions = ["matched", "same_answer", "mismatched", "interchange", "no_donor"]
    rows = [
        (donor, target, condition, draw, a)
        for donor, target in (("x", "y"), ("y", "x"))
        for condition in (*conditions, *DRAWN)
        for draw in (range(4) if condition in DRAWN else [-1])
        for a in range(PROMPTS)
    ]
    table = pd.DataFrame(rows, columns=["donor", "target", "condition", "seed", "a"])
    recovered = np.where(
        table["condition"].isin(DRAWN), rng.random(len(table)) < 0.3, table["condition"] == "matched"
    )
    return table.assign(operator="+", k=10, b=1, recovered=recovered, donor_answer=True, permuted_answer=0.2)


def test_in_transfer_nothing_is_left_of_what_was_there(monkeypatch):
    monkeypatch.setattr(nulls, "TRIALS", 20)
    pairs = pairs_of(np.random.default_rng(1))
    transfer = pd.DataFrame({"operator": "+", "direction": ["x_to_y", "y_to_x"], "k": 10, "condition": "matched"})
    table = nulls.rates(list(nulls.transfer_trials(transfer, pairs, 200, 0)))
    assert set(table.columns) == set(NULLS.columns)
    found = table.set_index(["question", "null"])
    assert found["trials"].to_dict() == {
        ("repaired", "a control is the circuit"): 4 * len(DRAWN),
        ("imposed", "permuted donors"): 20,
        ("interchange", "permuted donors"): 20,
        ("beyond_the_answer", "donors change places"): 20,
    }
    assert (found[["yes", "no"]].max(axis=1) <= 0.1).all()
    assert found[["yes", "no", "undecided", "undefined"]].sum(axis=1).to_numpy() == pytest.approx(1)


def test_no_name_means_the_same_operator_in_two_formats(monkeypatch):
    seen = []
    monkeypatch.setattr(
        nulls,
        "differing_table",
        lambda cells, ks, resamples, seed: (
            seen.append(cells)
            or pd.DataFrame(
                {"quantity": "operators_own", "operators": ["all", "one"], "k": 5, "low": -1.0, "high": -0.5}
            )
        ),
    )
    operators, formats = ("one", "two", "three", "four"), ("s", "c", "w")
    cells = {(form, operator): (form, operator) for form in formats for operator in operators}
    trials = list(nulls.overlap_trials(cells, [5], 10, 0))
    assert len(trials) == len(seen) == 3
    assert {one["verdict"] for one in trials} == {"no"}
    for changed in seen:
        for name in operators:
            given = [changed[form, name] for form in formats]
            assert [form for form, _ in given] == list(formats), "a format keeps its cells"
            assert len({operator for _, operator in given}) == 3
    few = {key: value for key, value in cells.items() if value[1] in ("one", "two")}
    assert list(nulls.overlap_trials(few, [5], 10, 0)) == []
