"""The contrasts of the dose and of other tasks, from a made-up table by prompt, against plain computations."""

from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from measured import contrasts_of
from plain_contrasts import check_pairs, members_of, ranking_noise
from scipy.stats import norm

from form_invariance.experiment.contrasts import rivals
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.engine import (
    ROUNDING,
    SEVERAL,
    Pair,
    limits,
    problems_of,
    resampling,
    verdict,
)
from form_invariance.experiment.contrasts.entries import CIRCUITS, entries_of
from form_invariance.experiment.measurements import TASK_MEANS, measurements
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.tables.columns import ALL

FORMATS, OPERATORS, COPYING = "scw", ("one", "two", "three"), ("copying", "echo")
FEW, RESAMPLES = ("w", "three"), 60
"""The cell `FEW` has too few prompts for an interval."""
Z = norm.ppf(0.975)
MATCHED, EQUAL = ("random_variance", "random_effect"), ("equal_norm", "random_direction")
SETS = {half + name: 1 for half in ("", *HALVES) for name in ("circuit", *map("best_in_{}".format, FORMATS))}
SETS |= {name + of: 3 for name in (*MATCHED, *EQUAL) for of in ("", "_of_own_best")}
SETS |= {"random_of_own_best": 3, "own_best_not_shared": 1, "own_best_in_layers_2_to_3": 1, "all_late": 1}
"""Draws by the names of the sets."""
INTERVENED = {
    "knockout": [*SETS],
    "keep_only": [name for name in SETS if not name.startswith((*EQUAL, "all_late"))],
    "direct": [name for name in SETS if "best_in_" in name],
}
COLUMNS = {"probability": "probability", "accuracy": "correct", "margin": "margin"}


def made_up(operators):
    """The table by prompt, and what each set costs (kept alone: gains), (draws, P), with the problems.

    Circuits and the best do more than others.
    """
    rng, lost, problems, parts = np.random.default_rng(0), {}, {}, []
    for name, (place, task) in product(FORMATS, enumerate((*operators, *COPYING, "other"))):
        size = 3 if (name, task) == FEW else 14 + 2 * place
        prompts = pd.DataFrame({"index": range(size), "a": (asked := rng.permutation(30)[:size]), "b": asked + 1})
        problems[name, task] = problems_of(task, asked, asked + 1)
        setting = {"format": name, "task": task, "donor": "", "positions": "last", "means": TASK_MEANS}
        before = {"probability": 1 - rng.random((1, size)) / 5, "correct": np.ones((1, size))}
        before["margin"] = 9 * before["probability"]
        nobody = pd.DataFrame([{"operator": task, "neurons": "none", "k": 0, "seed": -1}])
        parts.append(measurements(nobody, prompts, before, **setting, intervention="good"))
        for how, names in INTERVENED.items():
            sets = [
                (o, one, 5, n if SETS[one] > 1 else -1)
                for o in operators
                for one in names
                for n in range(SETS[one])
            ]
            labels = pd.DataFrame(sets, columns=["operator", "neurons", "k", "seed"])
            strong = labels["neurons"].str.contains("circuit|best_in_").to_numpy() != (how == "keep_only")
            rate = np.where(strong, 0.3, 0.7)[:, None] + rng.normal(size=(len(sets), 1)) / 20
            after = {"probability": rate + rng.normal(size=(len(sets), size)) / 5}
            after |= {"correct": rng.random((len(sets), size)) < rate, "margin": 9 * after["probability"] ** 2}
            parts.append(measurements(labels, prompts, after, **setting, intervention=how))
            for metric, column in COLUMNS.items():
                change = (before[column] - after[column]) * (-1 if how == "keep_only" else 1)
                for key, rows in labels.groupby(["operator", "neurons"]).indices.items():
                    lost[metric, how, name, task, *key] = change[rows]
    return pd.concat(parts, ignore_index=True), SimpleNamespace(lost=lost, problems=problems, operators=operators)


def plain(made, metric, how, task, cell, half=""):
    """Of each contrast in a cell: both values (1 + R,), the control, its draws, and the tasks that it is about."""
    name, operator = cell
    others, elsewhere = [one for one in made.operators if one != operator], [f for f in FORMATS if f != name]
    places = {"own": [operator], "other_operators": others, "all_copying": COPYING}

    def mean(*sets, whose="own", on="own", half=half):
        found = []
        for at, of, neurons in product(places.get(on, [on]), places.get(whose, [whose]), sets):
            if (values := made.lost.get((metric, how, name, at, of, half + neurons))) is not None:
                weights = resampling(made.problems[name, at], RESAMPLES, 0)
                found.append(values.mean(0) @ weights / weights.sum(0))
        return np.mean(found, axis=0) if found else np.full(1 + RESAMPLES, np.nan)

    def strongest(kinds, of="", on="own"):
        kinds = [kind for kind in kinds if (metric, how, name, operator, operator, kind + of) in made.lost]
        kind = max(kinds, key=lambda kind: mean(kind + of, on=on, half="")[0], default="none")
        draws = [made.lost.get((metric, how, name, at, operator, kind + of)) for at in places.get(on, [on])]
        draws = np.mean([one.mean(1) for one in draws], axis=0) if kinds and not of else ()
        return mean(kind + of, on=on, half=""), kind, {f"{operator} {kind}": draws} if len(draws) else {}

    own, other = mean(f"best_in_{name}"), mean(*(f"best_in_{form}" for form in elsewhere))
    foreign = mean(*(f"best_in_{form}" for form in elsewhere), whose="other_operators")
    by_half = mean(*(one + f"best_in_{name}" for one in HALVES))
    circuit, part = mean("circuit"), mean("random_of_own_best", half="")
    level, kind, _ = strongest((*MATCHED, *EQUAL), "_of_own_best")
    beyond = {}
    for on in ("own", "other_operators", "all_copying"):
        control, _, draws = strongest(MATCHED, on=on)
        beyond[on] = mean("circuit", on=on) - control, draws
    (own_beyond, drawn), (there, drawn_there), (copied, drawn_copied) = beyond.values()
    # A draw of one kind is the same neurons on both tasks.
    signed = {key: np.zeros(3) for key in (*drawn, *drawn_there)}
    for sign, draws in ((-1, drawn), (1, drawn_there)):
        for key, values in draws.items():
            signed[key] = signed[key] + sign * values
    part_draws = made.lost.get((metric, how, name, operator, operator, "random_of_own_best"), np.zeros((2, 1)))
    found = {
        "circuit_minus_fair_control": (circuit, *strongest((*MATCHED, *EQUAL))),
        "circuit_minus_control": (mean("circuit", on=task), *strongest(MATCHED, on=task), [task]),
        "own_minus_other_beyond_control": (
            own_beyond,
            there,
            "",
            signed,
            ["own", "other_operators"],
        ),
        "own_minus_copied_of_own": (own_beyond - copied, own_beyond, "", drawn_copied, ["own", "all_copying"]),
        "exchanged_minus_own_beyond_control": (other - level, own - level, kind),
        "half_minus_own_beyond_control": (by_half - level, own - level, kind),
        "exchanged_minus_other_operators_best": (other, foreign),
        "other_formats_minus_own": (other, own),
        "other_operators_minus_own": (foreign, own),
        "shared_minus_part_of_best": (circuit, part, "", {f"{operator} part": part_draws.mean(1)}),
    }
    losses = {"own_best": own, "other_formats_best": other, "other_operators_best": foreign, "shared": circuit}
    losses |= {"best_not_shared": mean("own_best_not_shared", half=""), "part_of_best": part}
    losses |= {"matched": strongest(MATCHED, "_of_own_best")[0], "own_best_direct": own}
    losses |= {one: mean(f"{one}_of_own_best", half="") for one in EQUAL}
    losses |= {one: mean(one, half="") for one in ("all_late", "own_best_in_layers_2_to_3")}
    found |= {f"loss_of_{key}": (value, 0 * value) for key, value in losses.items()}
    copying = mean(f"best_in_{name}", on="all_copying")
    rivals = {f"rival {one}": (circuit, mean("circuit", whose=one)) for one in others}
    return found | rivals | {"loss_of_copying": (copying, 0 * copying, "", {}, ["all_copying"])}


def pairs_of(made, metric, how, task="own"):
    """The pairs of every contrast, by cell."""
    found = {}
    for name, operator in product(FORMATS, made.operators):
        whole, *halves = (plain(made, metric, how, task, (name, operator), half) for half in ("", *HALVES))
        for contrast, (first, second, *more) in whole.items():
            control, draws, tasks = (*more, *("", {}, ["own"])[len(more) :])
            others = [one for one in made.operators if one != operator]
            places = {"own": [operator], "other_operators": others, "all_copying": COPYING}
            asked = [made.problems[name, at] for one in tasks for at in places.get(one, [one])]
            by_half = np.array([[half[contrast][side][0] for half in halves] for side in (0, 1)])
            pair = Pair(first, second, (min(asked, key=len),), control, draws, metric != "margin", by_half)
            found.setdefault(contrast, {})[name, operator] = pair
    return found


@pytest.fixture(scope="module")
def three():
    """The table of contrasts, and what was made up, of three operators."""
    table, made = made_up(OPERATORS)
    names = [name for name, entry in entries_of(Measured(table)).items() if entry.sizes != CIRCUITS]
    return contrasts_of(table, names, [5], RESAMPLES, 0, COPYING), made


def check_ratios(table, pairs):
    """The ratio of means over cells, where the second is surely above rounding; its limits are widened, too.

    Where a resample has nothing to divide by, the first is by far the larger one, or neither is anything.
    """
    for name, operator, *found in table[["format", "operator", "ratio", "ratio_low", "ratio_high"]].to_numpy():
        members = [(one.first, one.second) for one in members_of(pairs, name, operator) if one.defined]
        first, second = np.mean(members or [np.zeros((2, 2))], axis=0)
        if np.quantile(second[1:], 0.025) <= ROUNDING:
            assert np.isnan(found).all()
            continue
        ratios = first / np.where(second > 0, second, np.inf)
        ratios = np.where((second > 0) | (first <= 0), ratios, ratios[second > 0].max())
        noise = ranking_noise(pairs, name, operator, lambda one, other: one - ratios[0] * other) / second[0]
        ends = np.quantile(ratios[1:], [0.025, 0.975]) - ratios[0]
        assert found == pytest.approx([ratios[0], *(ratios[0] + [-1, 1] * np.hypot(ends, np.nan_to_num(noise)))])


def test_contrasts_equal_a_plain_computation(three):
    """The ratio of a row, too; and the rows of an operator whose fewest prompts are too few."""
    table, made = three
    keys = ["metric", "intervention", "task"]
    known = set()
    for key, rows in table[table["contrast"] != "own_minus_other_circuits"].groupby(keys):
        plain = pairs_of(made, *key)
        for contrast, own in rows.groupby("contrast"):
            check_pairs(own, plain[contrast])
            check_ratios(own, plain[contrast])
            known |= {contrast} if own["ratio"].notna().any() else set()
    assert {"exchanged_minus_own_beyond_control", "own_minus_copied_of_own"} < known
    assert set(table["control"]) >= {*MATCHED, *EQUAL, SEVERAL, ""}
    assert set(table["task"]) == {"own", "other_operators", "all_copying", *COPYING, "other"}
    few = table[(table["format"] == FEW[0]) & (table["operator"] == FEW[1])].set_index(["contrast", "metric"])
    assert few.loc[("loss_of_own_best", "probability"), "verdict"].eq("undefined").all()


def check_rivals(table, pairs):
    """The contrast with the strongest rivals, by a loop over assignments; pairs by (format, operator, rival)."""
    for row in table.to_dict("records"):
        name, operator = row["format"], row["operator"]
        chosen = {key: one for key, one in pairs.items() if name in (ALL, key[0]) and operator in (ALL, key[1])}
        chosen = {key: one for key, one in chosen.items() if one.defined}
        cells = list(dict.fromkeys((form, of) for form, of, _ in chosen))
        assert row["cells"] == len(cells)
        if not cells:
            assert (row["control"], row["verdict"]) == ("none", "undefined")
            continue
        operators = list(dict.fromkeys(of for _, of in cells))
        half = np.nan_to_num(noise := ranking_noise(pairs, name, operator))
        found, errors = [], []
        for rival in product(*(dict.fromkeys(r for _, of, r in chosen if of == own) for own in operators)):
            against = [chosen[form, of, rival[operators.index(of)]] for form, of in cells]
            difference = np.mean([one.first - one.second for one in against], axis=0)
            low, high, error = limits(difference, [one.problems[0] for one in against])
            deviation = difference[1:].std(ddof=1) if np.ptp(difference[1:]) > ROUNDING else (high - low) / 2 / Z
            found.append((difference, difference[0] - np.hypot(difference[0] - low, half), error, deviation))
            errors.append((difference[0] - difference[1:]) / deviation)
        quantile = max(np.quantile(np.max(errors, axis=0), 0.975), Z)
        low, error = min((low, error) for _, low, error, _ in found)
        high = min(one[0] + np.hypot(quantile * deviation, half) for one, _, _, deviation in found)
        wanted = {"difference": min(one[0] for one, *_ in found), "low": low, "high": high, "ranking_noise": noise}
        assert row["first"] - row["second"] == pytest.approx(wanted["difference"])
        assert {key: row[key] for key in wanted} == pytest.approx(wanted, nan_ok=True)
        assert (row["limit_error"], row["verdict"]) == (pytest.approx(error), verdict(low, high, error))
        assert np.isnan(row["ratio"])


def rivals_of(made, metric):
    """The pairs of own circuits and others', by (format, operator, rival)."""
    found = pairs_of(made, metric, "knockout")
    names = [name for name in found if name.startswith("rival ")]
    return {(*cell, name): pair for name in names for cell, pair in found[name].items()}


@pytest.mark.parametrize("operators", [OPERATORS[:2], OPERATORS])
def test_the_strongest_rivals_equal_a_loop_over_all_assignments(operators, three):
    table, made = three
    if len(operators) == 2:
        table, made = made_up(operators)
        table = contrasts_of(table, ["own_minus_other_circuits"], [5], RESAMPLES, 0)
    table = table[table["contrast"] == "own_minus_other_circuits"]
    for metric, rows in table.groupby("metric"):
        check_rivals(rows, rivals_of(made, metric))


def rows_of(pairs):
    """The rows of pairs by (format, operator, rival)."""
    cells = {}
    for (name, operator, rival), pair in pairs.items():
        cells.setdefault((name, operator), {})[rival] = pair
    return pd.DataFrame(rivals.rival_rows(cells)).assign(ratio=np.nan)


def test_where_no_resample_differs_the_limits_are_of_what_was_not_seen():
    problems = [problems_of(name, np.arange(20), np.arange(20)) for name in OPERATORS]
    pairs = {
        ("s", operator, rival): Pair(np.full(61, 1 / 3), np.full(61, 0.1 * place), (problems[place % 3],))
        for place, (operator, rival) in enumerate(permutations(OPERATORS, 2))
    }
    table = rows_of(pairs)
    check_rivals(table, pairs)
    assert (table["high"] - table["difference"] > 0.05).all()


def test_of_too_many_assignments_those_of_the_strongest_rivals_are_kept(three, monkeypatch):
    pairs = rivals_of(three[1], "probability")
    whole = rows_of(pairs)
    monkeypatch.setattr(rivals, "ASSIGNMENTS", 7)
    fewer = rows_of(pairs)
    assert fewer["difference"].tolist() == pytest.approx(whole["difference"].tolist(), nan_ok=True)
    assert fewer["high"].iloc[-1] < whole["high"].iloc[-1], "as many errors may be the largest"
