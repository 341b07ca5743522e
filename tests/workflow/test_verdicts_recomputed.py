"""Verdicts of knockout and transfer from the demo's tables by prompt and by pair, without the package.

The computation follows docs/method.md, section 15; its bootstrap draws the problems by NumPy's multinomial.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

RESULTS = Path(__file__).parents[2] / "results"
MODEL = RESULTS / "embedded-shared"
FEWEST, RESAMPLES = 5, 4000
HALVES, MEANS_HALVES = ("half_1_circuit", "half_2_circuit"), ("means_1_circuit", "means_2_circuit")
pytestmark = pytest.mark.skipif(
    not (RESULTS / "report.html").exists(), reason="needs the demo's results (make demo)"
)


def cells(name):
    """The tables with this name, of all formats and operators."""
    for path in sorted(MODEL.glob(f"*/*/{name}.parquet")):
        yield path.parts[-3], path.parts[-2], pd.read_parquet(path)


def problem(table):
    """A pair and its reverse are one problem."""
    return table[["a", "b"]].min(axis=1).astype(str) + " " + table[["a", "b"]].max(axis=1).astype(str)


def bootstrap(values):
    """Mean over cells of the cells' means in each resample of the problems; values: a row a prompt."""
    rng, drawn = np.random.default_rng(7), []
    for _, some in values.groupby("operator"):
        places, names = pd.factorize(some["problem"])
        counts = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=RESAMPLES)[:, places]
        for _, rows in some.groupby("cell").indices.items():
            weights = counts[:, rows]
            weights = np.where(weights.any(1, keepdims=True), weights, 1)
            drawn.append(weights @ some["value"].to_numpy()[rows] / weights.sum(1))
    return np.mean(drawn, axis=0)


def interval(values, spread=0.0):
    """The mean with its 95 % limits; spread: half of the prediction interval for a further draw of the control."""
    sizes = values.groupby("cell")["value"].transform("size")
    values = values[sizes >= FEWEST]
    low, high = np.percentile(bootstrap(values), [2.5, 97.5])
    mean = values.groupby("cell")["value"].mean().mean()
    return mean, mean - np.hypot(mean - low, spread), mean + np.hypot(high - mean, spread)


def noise_of(halves):
    """Half of the 95 % interval by the noise of rankings or means, from values by either half of the prompts."""
    cells = (halves.iloc[:, 0] - halves.iloc[:, 1]) / 2
    errors = cells.groupby("operator").mean()
    return student.ppf(0.975, len(errors)) * np.sqrt((errors**2).mean() / len(errors))


def verdict(question, metric, k):
    table = pd.read_parquet(MODEL / "shared/verdicts.parquet")
    chosen = (table["question"] == question) & (table["metric"] == metric) & (table["k"] == k)
    (row,) = table[chosen & (table["operator"] == "all")].to_dict("records")
    return row


def agrees(found, row):
    """The same difference; limits within the Monte Carlo error of two kinds of bootstrap; the same verdict."""
    mean, low, high = found
    assert mean == pytest.approx(row["difference"], abs=1e-9)
    width = row["high"] - row["low"]
    assert (low, high) == pytest.approx((row["low"], row["high"]), abs=0.08 * width)
    clear = min(abs(low), abs(high)) > 0.1 * width
    said = "yes" if low > 0 else "no" if high < 0 else "undecided"
    assert said == row["verdict"] or not clear or row["verdict"] == "mixed"


@pytest.mark.parametrize("k", [50, 150])
def test_knocked_out_against_the_strongest_control(k):
    differences, by_draw, halves = [], {}, {}
    datasets = {(name, operator): table for name, operator, table in cells("dataset")}
    count = len(datasets)
    for name, operator, table in cells("interventions_prompts"):
        pairs = datasets[name, operator].query("split == 'eval'").set_index("index")
        table = table[(table["positions"] == "all") & (table["means"] == "format")]
        before = table[table["intervention"] == "good"].set_index("index")["probability"]
        after = table[(table["intervention"] == "knockout") & (table["k"] == k)]
        lost = before.loc[after["index"]].to_numpy() - after["probability"]
        after = after.assign(lost=lost)
        each = after.groupby(["neurons", "index"])["lost"].mean().unstack("neurons")
        halves[name, operator] = each[[*HALVES, *MEANS_HALVES]].mean()
        control = each.drop(columns=["circuit", *HALVES, *MEANS_HALVES]).mean().idxmax()
        value = each["circuit"] - each[control]
        by_problem = pd.DataFrame({"value": value, "problem": problem(pairs.loc[each.index])})
        differences.append(by_problem.assign(cell=f"{name} {operator}", operator=operator))
        draws = after[after["neurons"] == control].groupby("seed")["lost"].mean()
        stream = operator, control
        by_draw[stream] = by_draw.get(stream, 0) + draws.to_numpy() / count
    squares = np.array([np.var(draws, ddof=1) * (1 + 1 / len(draws)) for draws in by_draw.values()])
    freedom = np.array([len(draws) - 1 for draws in by_draw.values()])
    half = student.ppf(0.975, squares.sum() ** 2 / (squares**2 / freedom).sum()) * squares.sum() ** 0.5
    by_half = pd.DataFrame(halves).T.rename_axis(["format", "operator"])
    half = np.sqrt(half**2 + noise_of(by_half[[*HALVES]]) ** 2 + noise_of(by_half[[*MEANS_HALVES]]) ** 2)
    agrees(interval(pd.concat(differences), half), verdict("necessary", "probability", k))


def pairs_of(half, condition, k):
    """The pairs of one condition of transfer, of all operators; half: before the names of the circuits."""
    paths = sorted(MODEL.glob("shared/*/transfer_pairs.parquet"))
    table = pd.concat(pd.read_parquet(path) for path in paths)
    table = table[
        (table["intervention"] == condition) & (table["neurons"] == f"{half}circuit") & (table["k"] == k)
    ]
    cell = table["operator"] + " " + table["donor"] + " " + table["format"]
    return table.assign(cell=cell, problem=problem(table))


def imposed(half, k):
    """How often the donor's answer comes out, minus that of permuted donors, by pair."""
    table = pairs_of(half, "mismatched", k)
    value = table["donor_answer"].astype(float) - table["permuted_answer"]
    return table.assign(value=value).dropna(subset="value")


def beyond_the_answer(half, k):
    """The same problem's donor minus another one with the same answer, by pair."""
    keys = ["cell", "operator", "a", "b", "problem"]
    conditions = (pairs_of(half, name, k) for name in ("matched", "same_answer"))
    both = pd.merge(*conditions, on=keys, suffixes=("_own", "_other"))
    return both.assign(value=both["correct_own"].astype(float) - both["correct_other"].astype(float))


@pytest.mark.parametrize("k", [50, 150])
@pytest.mark.parametrize("values", [imposed, beyond_the_answer])
def test_donors(values, k):
    halves = [values(half, k).groupby(["cell", "operator"])["value"].mean() for half in ("half_1_", "half_2_")]
    noise = noise_of(pd.concat(halves, axis=1).dropna())  # of the cells with enough pairs
    agrees(interval(values("", k), noise), verdict(values.__name__, "rate", k))
