from itertools import product

import numpy as np
import pandas as pd
import pytest
from measured import rows_of
from plain_contrasts import check_rows

from form_invariance.experiment.contrasts.cells import Measured
from form_invariance.experiment.contrasts.compute import contrasts_table
from form_invariance.experiment.contrasts.engine import SEVERAL
from form_invariance.experiment.contrasts.entries import CONTRASTS

PROMPTS, SEED, RESAMPLES = 12, 7, 200
# Means of flags over these numbers of draws are exact: equal controls are equal to the bit.
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
    # A cell asks some problems that all cells ask, and some of its own.
    problems = np.where(np.arange(PROMPTS) < 8, 0, 100 * seed) + np.arange(PROMPTS)
    return prompts.assign(a=problems[prompts["index"]], b=problems[prompts["index"]] + 1)


def contrasts(cells):
    parts = [rows_of(rows.assign(format=key[0], operator=key[1], task=key[1])) for key, rows in cells.items()]
    entry = {name: CONTRASTS[name] for name in ("circuit_minus_control_everywhere",)}
    return contrasts_table(Measured(pd.concat(parts, ignore_index=True)), {"k": [10, 50]}, RESAMPLES, SEED, entry)


def plain_cell(prompts, operator, intervention, k, metric):
    """Circuit and strongest control on each prompt, the problems, the control, its draws, the halves; by loops."""
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
    pairs = prompts.drop_duplicates("index").set_index("index").loc[range(PROMPTS), ["a", "b"]]
    problems = [(operator, int(a), int(b)) for a, b in pairs.to_numpy()]
    draws = {f"{operator} {control}": np.nanmean(values[control], axis=1)}
    return circuit, values[control].mean(0), problems, control, draws, [np.nanmean(half) for half in halves]


@pytest.fixture(scope="module")
def cells():
    filled = {("word", "addition"): [10, 50], ("code", "addition"): [10, 50], ("code", "division"): [50]}
    filled[("word", "division")] = []
    return {key: made_up(seed, ks) for seed, (key, ks) in enumerate(filled.items())}


def test_every_row_equals_plain_loops(cells):
    """Rows are of a cell, of an operator's cells and of all; a cell without neurons has a row without values."""
    table = contrasts(cells)
    assert set(table["control"]) == {*DRAWS, "none", SEVERAL} - {"circuit"}
    keys = ["k", "intervention", "metric"]
    for (k, intervention, metric), rows in table.groupby(keys):
        plain = {key: plain_cell(cells[key], key[1], intervention, k, metric) for key in cells}
        check_rows(rows, plain, RESAMPLES, SEED, metric != "faithfulness")
    assert len(table) == 2 * 2 * len(COLUMN) * (4 + 2 + 1)


def test_a_circuit_without_a_control_has_its_value_and_no_difference(cells):
    prompts = cells["word", "addition"]
    table = contrasts({("word", "addition"): prompts[prompts["neurons"].isin(["none", "circuit"])]})
    assert table.loc[table["format"] == "word", "first"].notna().all()
    assert table[["second", "difference", "low", "high"]].isna().all(axis=None)
