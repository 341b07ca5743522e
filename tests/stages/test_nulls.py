"""The verdicts' nulls: what is put in the circuit's place, and that true nulls are rarely rejected."""

import numpy as np
import pandas as pd
import pytest
from test_interventions_contrasts import made_up

from form_invariance.stages.summary import nulls, specific_nulls
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
    for _ in range(12):
        cells = {(form, "+"): equal_draws(rng) for form in ("a", "b", "c")}
        words += [one["verdict"] for one in nulls.ablation_trials(cells, 100, 0) if one["metric"] == "probability"]
    assert len(words) == 12 * 6 * 2
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


SETS = [("circuit", -1), ("best_in_s", -1), ("best_in_c", -1)]
SETS += [(kind, draw) for kind in ("random_variance", "random_effect") for draw in range(3)]


def lost_answers(rng, operators=("+", "-", "*"), problems=60):
    """A specificity_prompts table: circuits cost their own operator's answers, the best of all formats alike.

    The formats ask most problems in common, and what a problem costs is mostly the same in both.
    """
    rows = []
    for size, task in enumerate(operators):
        hard = rng.random(2 * problems) < 0.3 + 0.2 * size
        for name in "sc":
            asked = rng.permutation(int(1.3 * problems))[:problems]
            for operator in operators:
                for neurons, draw in SETS:
                    chance = 0.9 if operator == task and not neurons.startswith("random") else 0.1
                    costs = hard[asked] & (rng.random(problems) < chance)
                    rows += [
                        (name, operator, 10, task, neurons, draw, -1, place, int(lost))
                        for place, lost in zip(asked.tolist(), costs, strict=True)
                    ]
    names = ["format", "operator", "k", "task", "neurons", "seed", "a", "b", "lost"]
    table = pd.DataFrame(rows, columns=names)
    # Neurons that cost an answer keep it where they are kept alone.
    kept = table.assign(intervention="keep_only", lost=1 - table["lost"])
    return pd.concat([table.assign(intervention="knockout"), kept]).assign(
        probability=lambda every: 0.6 * every["lost"]
    )


def knocked_out(table):
    """Lost answers by cell."""
    return specific_nulls.lost_by_cell(table, "knockout", "accuracy")


def by_set(lost, cell, problem):
    """Answers lost on one problem, by operator of the set, and neurons and draw."""
    return {(key[0], key[2:]): value for key, value in lost[cell][problem].items()}


def test_relabelled_operators_change_places_on_a_problem_in_all_formats_alike():
    lost = knocked_out(lost_answers(np.random.default_rng(3)))
    # So that every value says whose it is.
    marked = {
        cell: rows.mul(0).add([100 * "+-*".index(key[0]) + SETS.index(key[2:]) for key in rows.index], axis=0)
        for cell, rows in lost.items()
    }
    changed, places = specific_nulls.relabelled(marked, np.random.default_rng(0)), {}
    assert changed.keys() == lost.keys()
    for (name, task), rows in changed.items():
        assert sorted(rows.index) == sorted(lost[name, task].index)
        for problem in rows.columns:
            found = by_set(changed, (name, task), problem)
            own = {operator: int(found[operator, SETS[0]]) // 100 for operator in "+-*"}
            assert sorted(own.values()) == [0, 1, 2]
            assert all(value == 100 * own[key[0]] + SETS.index(key[1]) for key, value in found.items())
            assert places.setdefault((task, problem), own) == own, "the formats differ"
    assert len({tuple(own.values()) for own in places.values()}) == 6


@pytest.mark.parametrize(("intervention", "sign"), [("knockout", 1), ("keep_only", -1)])
def test_thinned_formats_do_a_part_of_what_the_own_best_do_beyond_the_control(intervention, sign):
    lost = specific_nulls.lost_by_cell(lost_answers(np.random.default_rng(4)), intervention, "probability")
    changed, kept = specific_nulls.thinned(lost, np.random.default_rng(0), sign), {}
    for (name, task), rows in changed.items():
        before, other = lost[name, task], {"s": "best_in_c", "c": "best_in_s"}[name]
        assert rows.drop(index=other, level="neurons").equals(before.drop(index=other, level="neurons"))
        for operator in "+-*":
            own, found = before.loc[operator, 10, f"best_in_{name}", -1], rows.loc[operator, 10, other, -1]
            draws = [before.loc[operator, 10, kind] for kind in ("random_variance", "random_effect")]
            control = max(draws, key=lambda of: sign * of.to_numpy().mean()).mean()
            assert ((found == own) | (found == control)).all()
            for problem in own.index[own != control]:
                is_own = bool(found[problem] == own[problem])
                assert kept.setdefault((task, problem), is_own) == is_own, "the formats differ"
    assert np.mean(list(kept.values())) == pytest.approx(0.8, abs=0.1)


def test_controls_that_are_the_best_are_controls_no_more():
    lost = knocked_out(lost_answers(np.random.default_rng(4)))
    # So that every value says whose it is.
    marked = {
        cell: rows.mul(0).add([SETS.index(key[2:]) for key in rows.index], axis=0) for cell, rows in lost.items()
    }
    changed, taken = specific_nulls.placebo(marked, np.random.default_rng(0)), set()
    for rows in changed.values():
        values = rows.iloc[:, 0]
        for operator in "+-*":
            own = values[operator, 10]
            taken.add((own["best_in_s", -1], own["best_in_c", -1]))
            others = own.drop(index=["best_in_s", "best_in_c"], level="neurons")
            assert all(SETS[int(place)] == label for label, place in others.items())
            assert sorted(own) == [place for place in range(len(SETS)) if not SETS[place][0].startswith("best")]
    ((one, two),) = taken
    assert one != two
    assert SETS[int(one)][0] == SETS[int(two)][0]


def test_an_operator_without_neurons_at_a_size_changes_places_with_none():
    table = lost_answers(np.random.default_rng(5))
    lost = knocked_out(table[(table["operator"] != "-") | (table["neurons"] != "random_effect")])
    changed = specific_nulls.relabelled(lost, np.random.default_rng(0))["s", "+"]
    assert set(changed.index.get_level_values("neurons")) == {name for name, _ in SETS} - {"random_effect"}
    both = knocked_out(pd.concat([table, table[table["operator"] != "-"].assign(k=20)]))
    changed = specific_nulls.relabelled(both, np.random.default_rng(0))["s", "+"]
    assert set(changed.xs(20, level="k").index.get_level_values("operator")) == {"+", "*"}
    assert set(changed.xs(10, level="k").index.get_level_values("operator")) == {"+", "-", "*"}


def test_where_the_truth_is_known_circuits_are_rarely_called_specific_or_exchangeable(monkeypatch):
    monkeypatch.setattr(specific_nulls, "TRIALS", 4)
    rng, trials = np.random.default_rng(6), []
    for seed in range(8):
        trials += specific_nulls.specificity_trials(lost_answers(rng), 200, seed)
    table = nulls.rates(trials).set_index(["question", "metric", "null"])
    of_exchange = "a fifth of the losses is missing"
    expected = {("exchange", metric, of_exchange) for metric in ("accuracy", "probability")}
    expected |= {
        ("exchange", "probability kept", "a fifth of the gains is missing"),
        ("exchange", "probability", "controls are the best"),
        ("exchange", "probability kept", "controls are the best, kept"),
    }
    expected |= {
        ("specific", f"{metric}{beyond}", "operators relabelled")
        for metric in ("accuracy", "probability")
        for beyond in ("", " beyond control")
    }
    assert table["trials"].to_dict() == dict.fromkeys(expected, 32)
    assert (table[["yes", "no"]] <= 0.05).all(axis=None)
    controls = table.index.get_level_values("null").str.startswith("controls")
    # Neurons that do no more than controls do not make a ratio.
    assert (table["undefined"] == 0).eq(~controls).all()
    # Unchanged, both questions have the answer that the tables were made with.
    unchanged = {null: (lambda lost, rng: lost, *rest) for null, (_, *rest) in specific_nulls._NULLS.items()}
    monkeypatch.setattr(specific_nulls, "_NULLS", unchanged)
    assert {trial["verdict"] for trial in specific_nulls.specificity_trials(lost_answers(rng), 200, 0)} == {"yes"}
