"""The contrasts of the dose and of other tasks, from a made-up table by prompt, against plain computations."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from measured import contrasts_of
from plain_contrasts import check_pairs, members_of, noise_of
from scipy.stats import norm

from form_invariance.experiment.contrasts import engine, rivals
from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.engine import ROUNDING, SEVERAL, Pair, Value, problems_of, resampling
from form_invariance.experiment.contrasts.entries import CIRCUITS, entries_of
from form_invariance.experiment.measurements import TASK_MEANS, measurements
from form_invariance.experiment.neuron_sets import HALVES, MEANS_HALVES
from form_invariance.randomness import generator
from form_invariance.tables.columns import ALL

FORMATS, OPERATORS, COPYING = "scw", ("one", "two", "three"), ("copying", "echo")
FEW, RESAMPLES, Z = ("w", "three"), 60, norm.ppf(0.975)
"""A cell with too few prompts for an interval; resamples of the bootstrap."""
MATCHED, EQUAL = ["random_variance", "random_effect"], ["equal_norm", "random_direction"]
CHOSEN = ["circuit", *(f"best_in_{name}" for name in FORMATS)]
RANKED = [half + name for half in ("", *HALVES, *MEANS_HALVES) for name in CHOSEN]
DRAWN = [name + of for name in MATCHED + EQUAL for of in ("", "_of_own_best")] + ["random_of_own_best"]
OTHERS = ["own_best_not_shared", "own_best_in_layers_2_to_3", "all_late"]
INTERVENED = {"knockout": [*RANKED, *DRAWN, *OTHERS], "keep_only": [*RANKED, *DRAWN[:4]], "direct": RANKED}
COLUMNS = {"probability": "probability", "accuracy": "correct", "margin": "margin"}


def made_up(operators):
    """The table by prompt, and what each set costs (kept alone: gains), (draws, P), with the problems.

    Circuits and the best do more than others.
    """
    rng, lost, parts = np.random.default_rng(0), {}, []
    for name, (place, task) in product(FORMATS, enumerate((*operators, *COPYING, "other"))):
        size = 3 if (name, task) == FEW else 14 + 2 * place
        prompts = pd.DataFrame({"index": range(size), "a": (asked := rng.permutation(30)[:size]), "b": asked + 1})
        setting = {"format": name, "task": task, "donor": "", "positions": "last", "means": TASK_MEANS}
        before = {"probability": 1 - rng.random((1, size)) / 5, "correct": np.ones((1, size))}
        before["margin"] = 9 * before["probability"]
        nobody = pd.DataFrame([{"operator": task, "neurons": "none", "k": 0, "seed": -1}])
        parts.append(measurements(nobody, prompts, before, **setting, intervention="good"))
        for how, names in INTERVENED.items():
            draws = {one: (0, 1, 2) if one in DRAWN else (-1,) for one in names}
            sets = [(of, one, draw) for of in operators for one in names for draw in draws[one]]
            labels = pd.DataFrame(sets, columns=["operator", "neurons", "seed"]).assign(k=5)
            strong = labels["neurons"].isin(RANKED).to_numpy() != (how == "keep_only")
            rate = np.where(strong, 0.3, 0.7)[:, None] + rng.normal(size=(len(sets), 1)) / 20
            after = {"probability": rate + rng.normal(size=(len(sets), size)) / 5}
            after |= {"correct": rng.random((len(sets), size)) < rate, "margin": 9 * after["probability"] ** 2}
            parts.append(measurements(labels, prompts, after, **setting, intervention=how))
            for metric, column in COLUMNS.items():
                change = (before[column] - after[column]) * (-1 if how == "keep_only" else 1)
                for key, rows in labels.groupby(["operator", "neurons"]).indices.items():
                    lost[metric, how, name, task, *key] = change[rows], problems_of(task, asked, asked + 1)
    return pd.concat(parts, ignore_index=True), lost


def plain(lost, metric, how, task, cell, half=""):
    """Both values of each contrast in a cell, and of each rival."""
    name, operator = cell
    elsewhere = [f"best_in_{form}" for form in FORMATS if form != name]
    others = [of for *start, of, _ in lost if start == [metric, how, name, operator] and of != operator]
    places = {"own": [operator], "other_operators": list(dict.fromkeys(others)), "all_copying": COPYING}

    def mean(*sets, whose="own", on="own", half=half, drawn=False):
        found = []
        for at, of, neurons in product(places.get(on, [on]), places.get(whose, [whose]), sets):
            if (key := (metric, how, name, at, of, half + neurons)) in lost:
                values, problems = lost[key]
                weights = resampling(problems, RESAMPLES, 0)
                draws = {f"{of} {neurons}": values.mean(1)} if drawn else {}
                mean = values.mean(0) @ weights / weights.sum(0)
                found.append(Value(mean, problems, draws, bounded=metric != "margin"))
        return engine.average(found, RESAMPLES)

    def strongest(kinds, of="", on="own"):
        values = {kind: mean(kind + of, on=on, half="", drawn=not of) for kind in kinds}
        known = {kind: value for kind, value in values.items() if not np.isnan(value.mean[0])}
        kind = max(sorted(known), key=lambda kind: round(known[kind].mean[0], 12), default="none")
        return replace(known.get(kind, mean()), control=kind)

    own, other, foreign = mean(f"best_in_{name}"), mean(*elsewhere), mean(*elsewhere, whose="other_operators")
    by_half = mean(*(one + f"best_in_{name}" for one in HALVES))
    circuit, part = mean("circuit"), "random_of_own_best"
    level = strongest(MATCHED + EQUAL, "_of_own_best")
    beyond, there, copied = (
        replace(mean("circuit", on=on) - strongest(MATCHED, on=on), control="")
        for on in ("own", "other_operators", "all_copying")
    )
    losses = {"own_best": own, "other_formats_best": other, "other_operators_best": foreign, "shared": circuit}
    losses |= {"best_not_shared": mean(OTHERS[0], half=""), "part_of_best": mean(part, half="")}
    losses |= {"matched": strongest(MATCHED, "_of_own_best"), "own_best_direct": own}
    losses |= {one: mean(f"{one}_of_own_best", half="") for one in EQUAL}
    losses |= {one: mean(one, half="") for one in OTHERS[1:]}
    losses |= {"copying": mean(f"best_in_{name}", on="all_copying")}
    return {
        "circuit_minus_fair_control": (circuit, strongest(MATCHED + EQUAL)),
        "circuit_minus_control": (mean("circuit", on=task), strongest(MATCHED, on=task)),
        "own_minus_other_beyond_control": (beyond, there),
        "own_minus_copied_of_own": (beyond - copied, beyond),
        "exchanged_minus_own_beyond_control": (other - level, own - level),
        "half_minus_own_beyond_control": (by_half - level, own - level),
        "exchanged_minus_other_operators_best": (other, foreign),
        "other_formats_minus_own": (other, own),
        "other_operators_minus_own": (foreign, own),
        "shared_minus_part_of_best": (circuit, mean(part, half="", drawn=True)),
        **{f"loss_of_{key}": (value, replace(value - value, control="")) for key, value in losses.items()},
        **{of: (circuit, mean("circuit", whose=of)) for of in places["other_operators"]},
    }


def pairs_of(lost, *asked):
    """The pairs of every contrast, by cell."""
    found = {}
    for cell in product(FORMATS, dict.fromkeys(key[4] for key in lost)):
        whole, *halves = (plain(lost, *asked, cell, half) for half in ("", *HALVES, *MEANS_HALVES))
        for contrast, both in whole.items():
            by_half = np.array([[half[contrast][side].mean[0] for half in halves] for side in (0, 1)])
            sources = {"rankings": by_half[:, :2], "means": by_half[:, 2:]}
            found.setdefault(contrast, {})[cell] = replace(engine.compare(*both), halves=sources)
    return found


@pytest.fixture(scope="module")
def three():
    """The table of contrasts, and what was made up, of three operators."""
    table, lost = made_up(OPERATORS)
    names = [name for name, entry in entries_of(Measured(table)).items() if entry.sizes != CIRCUITS]
    return contrasts_of(table, names, [5], RESAMPLES, 0, COPYING), lost


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
        noises = [
            noise_of(source, pairs, name, operator, lambda one, other: one - ratios[0] * other) / second[0]
            for source in ("rankings", "means")
        ]
        ends = np.quantile(ratios[1:], [0.025, 0.975]) - ratios[0]
        wider = np.sqrt(ends**2 + np.nansum(np.square(noises)))
        assert found == pytest.approx([ratios[0], *(ratios[0] + [-1, 1] * wider)])


def test_contrasts_equal_a_plain_computation(three):
    """This includes ratios, and the rows of a cell that has too few prompts."""
    table, lost = three
    known, ordinary = set(), table[table["contrast"] != "own_minus_other_circuits"]
    for key, rows in ordinary.groupby(["metric", "intervention", "task"]):
        plain = pairs_of(lost, *key)
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
        noises = [noise_of(source, pairs, name, operator) for source in ("rankings", "means")]
        half = np.sqrt(np.nansum(np.square(noises)))
        own, other = (
            np.sqrt(np.nansum([noise_of(source, pairs, name, "", of) ** 2 for source in ("rankings", "means")]))
            / Z
            for of in (lambda first, second: first, lambda first, second: second)
        )
        choices = list(product(*(dict.fromkeys(r for _, of, r in chosen if of == own) for own in operators)))
        sizes = dict.fromkeys(product(operators, OPERATORS), other) | {(of,): own for of in operators}
        noise = {key: size * generator(0, "rival", *key).normal(size=RESAMPLES) for key, size in sizes.items()}
        found, errors = [], []
        for rival in choices:
            against = [chosen[form, of, rival[operators.index(of)]] for form, of in cells]
            difference = np.mean([one.first - one.second for one in against], axis=0)
            low, high, error = engine.limits(difference, [one.problems[0] for one in against])
            deviation = difference[1:].std(ddof=1) if np.ptp(difference[1:]) > ROUNDING else (high - low) / 2 / Z
            deviation = np.hypot(deviation, np.hypot(own, other) / len(operators) ** 0.5)
            found.append((difference, difference[0] - np.hypot(difference[0] - low, half), error, deviation))
            moved = np.mean([noise[(of,)] - noise[of, r] for of, r in zip(operators, rival, strict=True)], axis=0)
            errors.append((difference[0] - difference[1:] - moved) / deviation)
        quantile = max(np.quantile(np.max(errors, axis=0), 0.975), Z)
        low, error = min((low, error) for _, low, error, _ in found)
        high = min(one[0] + quantile * deviation for one, _, _, deviation in found)
        wanted = {"difference": min(one[0] for one, *_ in found), "low": low, "high": high}
        wanted |= dict(zip(("ranking_noise", "means_noise"), noises, strict=True))
        assert row["first"] - row["second"] == pytest.approx(wanted["difference"])
        assert {key: row[key] for key in wanted} == pytest.approx(wanted, nan_ok=True)
        assert (row["limit_error"], row["verdict"]) == (pytest.approx(error), engine.verdict(low, high, error))
        assert np.isnan(row["ratio"])


def rivals_of(lost, metric):
    """The pairs of own circuits and others', by (format, operator, rival)."""
    found = pairs_of(lost, metric, "knockout", "own")
    return {(*cell, of): pair for of in OPERATORS if of in found for cell, pair in found[of].items()}


@pytest.mark.parametrize("operators", [OPERATORS[:2], OPERATORS])
def test_the_strongest_rivals_equal_a_loop_over_all_assignments(operators, three):
    table, lost = three
    if len(operators) == 2:
        table, lost = made_up(operators)
        table = contrasts_of(table, ["own_minus_other_circuits"], [5], RESAMPLES, 0)
    table = table[table["contrast"] == "own_minus_other_circuits"]
    for metric, rows in table.groupby("metric"):
        check_rivals(rows, rivals_of(lost, metric))


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
