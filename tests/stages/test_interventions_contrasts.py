"""Contrasts of circuits with their strongest control, against plain loops over prompts and draws."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from form_invariance.errors import UserError
from form_invariance.experiment.contrasts import ALL, SEVERAL, described, over_cells, paired
from form_invariance.stages.interventions.contrasts import METRICS, cell_of, contrast_table

PROMPTS, SEED, RESAMPLES = 12, 7, 200
# By name, with numbers of draws whose means of flags are exact: equal controls are equal to the bit.
DRAWS = {
    **{"circuit": [-1], "random": [0, 1, 2, 3], "random_effect": [0, 1]},
    **{"random_variance": [0, 1]},
}
HALVES = ("half_1_circuit", "half_2_circuit")
COLUMN = {"faithfulness": "faithfulness", "accuracy": "correct", "probability": "probability"}


def made_up(seed, filled=(10, 50)):
    """An interventions table and its table by prompt of one cell; the third prompt has no faithfulness.

    Of the sizes 10 and 50, the circuits of those in `filled` have neurons.
    """
    rng = np.random.default_rng(seed)
    rows = [("good", "all", "format", "none", 0, -1, i, 1.0, True, 0.9 - i / 100) for i in range(PROMPTS)]
    for kind, positions, means, k in itertools.product(
        ("keep_only", "knockout"), ("all", "last"), ("format", "template"), filled
    ):
        for neurons, draws in {**DRAWS, **dict.fromkeys(HALVES, (-1,))}.items():
            for draw, index in itertools.product(draws, range(PROMPTS)):
                values = rng.random(), bool(rng.random() < 0.5), rng.random()
                rows.append((kind, positions, means, neurons, k, draw, index, *values))
    names = ["intervention", "positions", "means", "neurons", "k", "seed", "index", *COLUMN.values()]
    prompts = pd.DataFrame(rows, columns=names).assign(normalized_logit=0.5)
    prompts.loc[prompts["index"] == 2, "faithfulness"] = np.nan
    summary = pd.DataFrame(
        [
            (kind, "all", "format", "circuit", k, 7 * (k in filled))
            for kind, k in itertools.product(("keep_only", "knockout"), (10, 50))
        ],
        columns=[*names[:5], "n_neurons"],
    )
    # Each cell asks problems of its own, and some that all cells ask.
    problems = np.where(np.arange(PROMPTS) < 8, 0, 100 * seed) + np.arange(PROMPTS)
    dataset = pd.DataFrame({"split": "eval", "index": np.arange(PROMPTS), "a": problems, "b": problems + 1})
    return summary, prompts, pd.concat([dataset.assign(split="train", a=7), dataset[::-1]])


def plain_contrast(prompts, intervention, k, metric):
    """Strongest control, circuit and control on each prompt, means of the circuits by halves; by loops."""
    rows = prompts.query("positions == 'all' and means == 'format'").to_dict("records")

    def value(wanted, neurons, size, index):
        found = [
            float(row[COLUMN[metric]])
            for row in rows
            if (row["intervention"], row["neurons"], row["k"], row["index"]) == (wanted, neurons, size, index)
        ]
        return sum(found) / len(found)

    def told(neurons, index):
        done = value(intervention, neurons, k, index)
        return done if intervention == "keep_only" else value("good", "none", 0, index) - done

    every = [*DRAWS, *HALVES]
    by_neurons = {neurons: np.array([told(neurons, index) for index in range(PROMPTS)]) for neurons in every}
    circuit, *halves = (by_neurons.pop(name) for name in ("circuit", *HALVES))
    strongest = max(by_neurons, key=lambda neurons: np.nanmean(by_neurons[neurons]))
    return strongest, circuit, by_neurons[strongest], [np.nanmean(half) for half in halves]


def plain_draws(prompts, intervention, k, metric, control):
    """Mean of each draw of a control, by loops."""
    rows = prompts.query("positions == 'all' and means == 'format'").to_dict("records")
    means = []
    for draw in DRAWS[control]:
        values = [
            float(row[COLUMN[metric]])
            for row in rows
            if (row["intervention"], row["neurons"], row["k"], row["seed"]) == (intervention, control, k, draw)
        ]
        means.append(np.nanmean(values))
    return np.array(means)


def plain_pair(tables, operator, intervention, k, metric):
    """A cell's pair, whose resamples and draws are those of `tests/experiment/test_contrasts.py`."""
    _, prompts, dataset = tables
    control, circuit, other, _ = plain_contrast(prompts, intervention, k, metric)
    pairs = dataset[dataset["split"] == "eval"].set_index("index").loc[range(PROMPTS), ["a", "b"]]
    problems = [(operator, int(a), int(b)) for a, b in pairs.to_numpy()]
    draws = {(operator, control): plain_draws(prompts, intervention, k, metric, control)}
    return paired(circuit, other, problems, RESAMPLES, SEED, control=control, draws=draws)


def plain_noise(cells, row):
    """Half of the interval by the noise of rankings: squared half differences, in the mean over rows alike."""
    differences = {}
    for name, operator in cells:
        if row["k"] == 50 or (name, operator) != ("code", "division"):
            *_, (one, other) = plain_contrast(
                cells[name, operator][1], row["intervention"], row["k"], row["metric"]
            )
            differences.setdefault(operator, []).append((one - other) / 2)
    operators = len(differences)
    if row["format"] != ALL:
        squares, averaged = [value**2 for own in differences.values() for value in own], 1
    else:
        squares, averaged = [np.mean(own) ** 2 for own in differences.values()], operators
    return t.ppf(0.975, operators) * (np.mean(squares) / (averaged if row["operator"] == ALL else 1)) ** 0.5


@pytest.fixture(scope="module")
def cells():
    return {
        ("word", "addition"): made_up(0),
        ("code", "addition"): made_up(1),
        ("code", "division"): made_up(2, [50]),
    }


@pytest.fixture(scope="module")
def table(cells):
    return contrast_table({key: cell_of(*tables) for key, tables in cells.items()}, RESAMPLES, SEED)


def test_every_row_equals_plain_loops(cells, table):
    """A row of one cell, of an operator's cells or of all: of those with neurons."""
    chosen = set()
    for row in table[table["n_neurons"] > 0].to_dict("records"):
        wanted = [
            key
            for key in cells
            if row["format"] in (ALL, key[0]) and row["operator"] in (ALL, key[1])
            if row["k"] == 50 or key != ("code", "division")
        ]
        pairs = [plain_pair(cells[key], key[1], row["intervention"], row["k"], row["metric"]) for key in wanted]
        expected = described(over_cells(pairs))
        for name in ("control", "prompts", "cells"):
            assert row[name] == expected[name], name
        for name in ("first", "second", "difference"):
            assert row[name] == pytest.approx(expected[name], abs=1e-12), name
        noise = plain_noise(cells, row)
        assert row["ranking_noise"] == pytest.approx(noise)
        low, high = (np.hypot(expected[name] - expected["difference"], noise) for name in ("low", "high"))
        assert (row["low"], row["high"]) == pytest.approx((row["difference"] - low, row["difference"] + high))
        assert row["n_neurons"] == 7 * len(wanted)
        chosen.add(row["control"])
    assert {*DRAWS, SEVERAL} - {"circuit"} == chosen, "else the choice of the control is not tested"


def test_a_circuit_without_neurons_has_a_row_and_no_values(table):
    empty = table[table["n_neurons"] == 0]
    assert len(empty) == 2 * 2 * len(METRICS), "the cell, and its operator"
    assert set(empty["operator"]) == {"division"}
    assert (empty["control"] == "none").all()
    assert (empty[["prompts", "cells"]] == 0).to_numpy().all()
    assert empty[["first", "second", "difference", "low", "high"]].isna().to_numpy().all()


def test_a_circuit_without_a_control_has_its_value_and_no_difference(cells):
    summary, prompts, dataset = cells["word", "addition"]
    alone = prompts[prompts["neurons"].isin(["none", "circuit"])]
    table = contrast_table({("word", "addition"): cell_of(summary, alone, dataset)}, RESAMPLES, SEED)
    cell = table[table["format"] == "word"]
    assert cell["first"].notna().all()
    assert (cell["control"] == "none").all()
    assert table[["second", "difference", "low", "high"]].isna().to_numpy().all()


def test_a_dataset_of_other_prompts_is_refused(cells):
    summary, prompts, dataset = cells["word", "addition"]
    with pytest.raises(UserError, match=r"no eval prompt 11, .* the same run"):
        cell_of(summary, prompts, dataset[dataset["index"] < 11])
