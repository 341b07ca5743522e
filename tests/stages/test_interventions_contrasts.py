from itertools import product

import numpy as np
import pandas as pd
import pytest
from plain_contrasts import check_rows

from form_invariance.errors import UserError
from form_invariance.experiment.contrasts import SEVERAL
from form_invariance.stages.interventions.contrasts import METRICS, cell_of, contrast_table

PROMPTS, SEED, RESAMPLES = 12, 7, 200
# By name, with numbers of draws whose means of flags are exact: equal controls are equal to the bit.
DRAWS = {"circuit": [-1], "random": [0, 1, 2, 3], "random_effect": [0, 1], "random_variance": [0, 1]}
HALVES = ("half_1_circuit", "half_2_circuit")
COLUMN = {"faithfulness": "faithfulness", "accuracy": "correct", "probability": "probability"}


def made_up(seed, filled):
    """Tables of a cell whose circuits of the sizes `filled` have neurons; the third prompt has no faithfulness."""
    rng = np.random.default_rng(seed)
    rows = [("good", "all", "format", "none", 0, -1, i, 1.0, True, 0.9 - i / 100) for i in range(PROMPTS)]
    kinds = "keep_only", "knockout"
    sets = [(name, draw) for name, draws in {**DRAWS, **dict.fromkeys(HALVES, (-1,))}.items() for draw in draws]
    every = product(kinds, ("all", "last"), ("format", "template"), filled, sets, range(PROMPTS))
    for kind, positions, means, k, (neurons, draw), index in every:
        values = rng.random(), bool(rng.random() < 0.5), rng.random()
        rows.append((kind, positions, means, neurons, k, draw, index, *values))
    names = ["intervention", "positions", "means", "neurons", "k", "seed", "index", *COLUMN.values()]
    prompts = pd.DataFrame(rows, columns=names)
    prompts.loc[prompts["index"] == 2, "faithfulness"] = np.nan
    sizes = [(kind, "all", "format", "circuit", k, 7 * (k in filled)) for kind, k in product(kinds, (10, 50))]
    summary = pd.DataFrame(sizes, columns=[*names[:5], "n_neurons"])
    # Each cell asks problems of its own, and some that all cells ask.
    problems = np.where(np.arange(PROMPTS) < 8, 0, 100 * seed) + np.arange(PROMPTS)
    dataset = pd.DataFrame({"split": "eval", "index": np.arange(PROMPTS), "a": problems, "b": problems + 1})
    return summary, prompts, pd.concat([dataset.assign(split="train", a=7), dataset[::-1]])


def plain_cell(tables, operator, intervention, k, metric):
    """Circuit and strongest control on each prompt, the problems, the control, its draws, the halves; by loops."""
    _, prompts, dataset = tables
    rows = prompts.query("positions == 'all' and means == 'format'").to_dict("records")
    before = {row["index"]: float(row[COLUMN[metric]]) for row in rows if row["intervention"] == "good"}
    by = {}
    for row in rows:
        if (row["intervention"], row["k"]) == (intervention, k):
            after = float(row[COLUMN[metric]])
            told = after if intervention == "keep_only" else before[row["index"]] - after
            by.setdefault(row["neurons"], {}).setdefault(row["seed"], {})[row["index"]] = told
    if not by:
        return np.empty(0), np.empty(0), [], "none", {}, (np.nan, np.nan)
    values = {name: np.array([[*own.values()] for own in draws.values()]) for name, draws in by.items()}
    circuit, *halves = (values.pop(name)[0] for name in ("circuit", *HALVES))
    control = max(sorted(values), key=lambda name: np.nanmean(values[name]))
    pairs = dataset[dataset["split"] == "eval"].set_index("index").loc[range(PROMPTS), ["a", "b"]]
    problems = [(operator, int(a), int(b)) for a, b in pairs.to_numpy()]
    draws = {f"{operator} {control}": np.nanmean(values[control], axis=1)}
    return circuit, values[control].mean(0), problems, control, draws, [np.nanmean(half) for half in halves]


@pytest.fixture(scope="module")
def cells():
    filled = {("word", "addition"): [10, 50], ("code", "addition"): [10, 50], ("code", "division"): [50]}
    return {key: made_up(seed, ks) for seed, (key, ks) in enumerate(filled.items())}


def test_every_row_equals_plain_loops(cells):
    """Of a cell, of an operator's cells, and of all; without neurons there is a row, too, and no values."""
    table = contrast_table({key: cell_of(*tables) for key, tables in cells.items()}, RESAMPLES, SEED)
    assert set(table["control"]) == {*DRAWS, "none", SEVERAL} - {"circuit"}
    keys = ["k", "intervention", "metric"]
    for (k, intervention, metric), rows in table.groupby(keys):
        plain = {key: plain_cell(cells[key], key[1], intervention, k, metric) for key in cells}
        check_rows(rows.drop(columns=[*keys, "n_neurons"]), "format", plain, RESAMPLES, SEED)
        filled = len(plain) if k == 50 else len(plain) - 1
        assert rows["n_neurons"].max() == 7 * filled
    assert len(table) == 2 * 2 * len(METRICS) * (3 + 2 + 1)


def test_a_circuit_without_a_control_has_its_value_and_no_difference(cells):
    summary, prompts, dataset = cells["word", "addition"]
    alone = prompts[prompts["neurons"].isin(["none", "circuit"])]
    table = contrast_table({("word", "addition"): cell_of(summary, alone, dataset)}, RESAMPLES, SEED)
    assert table.loc[table["format"] == "word", "first"].notna().all()
    assert table[["second", "difference", "low", "high"]].isna().all(axis=None)


def test_a_dataset_of_other_prompts_is_refused(cells):
    summary, prompts, dataset = cells["word", "addition"]
    with pytest.raises(UserError, match=r"no eval prompt 11, .* the same run"):
        cell_of(summary, prompts, dataset[dataset["index"] < 11])
