"""What transfer does beyond injecting an answer: contrasts between its conditions (method, section 8)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from form_invariance.stages.transfer.names import BASELINES, CONTROLS, EVERY
from form_invariance.statistics import hierarchical_interval, paired_interval

_CELL = ["operator", "direction", "k"]

Contrast = Callable[[pd.DataFrame], tuple[pd.Series, pd.Series, str]]
"""From a cell's means by pair: the two values of each pair, and the name of the control, if there is one."""


def _minus(other: str) -> Contrast:
    return lambda cell: (cell["recovered", "matched"], cell["recovered", other], "")


def _donors_own(condition: str) -> Contrast:
    """How often the donor's answer comes out, beyond what donors that are permuted among the pairs would give."""
    return lambda cell: (cell["donor_answer", condition], cell["permuted_answer", condition], "")


def _minus_strongest(others: Sequence[str], cell: pd.DataFrame) -> tuple[pd.Series, pd.Series, str]:
    """The strongest of other conditions recovers most in this cell, in the mean over its draws."""
    controls = pd.DataFrame({name: cell["recovered", name] for name in others})
    means = controls.mean()
    if means.isna().all():
        return cell["recovered", "matched"], pd.Series(np.nan, cell.index), ""
    strongest = str(means.idxmax())
    return cell["recovered", "matched"], controls[strongest], strongest


CONTRASTS: dict[str, Contrast] = {
    "matched_minus_baseline": partial(_minus_strongest, BASELINES),
    "matched_minus_same_answer": _minus("same_answer"),
    "imposed": _donors_own("mismatched"),
    "interchange": _donors_own("interchange"),
    "matched_minus_mismatched": _minus("mismatched"),
    "matched_minus_control": partial(_minus_strongest, CONTROLS),
}
"""By name, as in the table."""


def _by_pair(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over draws: rows are cells and operands, columns (value, condition)."""
    conditions = ["matched", "same_answer", "interchange", *BASELINES]
    values = ["recovered", "donor_answer", "permuted_answer"]
    own = pairs[pairs["condition"].isin(conditions)].astype(dict.fromkeys(values, float))
    means = own.groupby([*_CELL, "a", "b", "condition"])[values].mean()
    wide = pd.DataFrame(means.unstack("condition"))
    return wide.reindex(columns=pd.MultiIndex.from_product([values, conditions]))


def contrast_table(transfer: pd.DataFrame, pairs: pd.DataFrame, resamples: int, seed: int) -> pd.DataFrame:
    """The contrasts of every cell (operator, direction) and k, and those over all cells.

    Args:
        transfer: transfer tables with the columns operator and direction; they say which cells there are.
        pairs: tables by pair with the column operator.
        resamples: bootstrap resamples.
    """
    cells = transfer.loc[transfer["condition"] == "matched", _CELL].drop_duplicates()
    by_pair = _by_pair(pairs.assign(direction=pairs["donor"] + "_to_" + pairs["target"]))
    by_cell = dict(iter(by_pair.groupby(_CELL, sort=False)))
    rows = [row for name in CONTRASTS for row in _rows(name, cells, by_cell, by_pair.iloc[:0], resamples, seed)]
    return pd.DataFrame(rows)


def _rows(
    name: str,
    cells: pd.DataFrame,
    by_cell: dict[tuple[object, ...], pd.DataFrame],
    nobody: pd.DataFrame,
    resamples: int,
    seed: int,
) -> Iterator[dict[str, object]]:
    """The rows of one contrast; a cell without any pair has the values of `nobody`."""
    for k, own in cells.groupby("k"):
        values = []
        for key in own.itertuples(index=False, name=None):
            first, second, control = CONTRASTS[name](by_cell.get(key, nobody))
            both = pd.DataFrame({"first": first, "second": second}).astype(float).dropna()
            values.append(both)
            difference = (both["first"] - both["second"]).to_numpy()
            interval = paired_interval(difference, resamples, seed, "transfer", *map(str, key[:2]))
            yield _row(dict(zip(_CELL, key, strict=True)), name, control, interval, values[-1:])
        differences = [(both["first"] - both["second"]).to_numpy() for both in values]
        interval = hierarchical_interval(differences, resamples, seed, "transfer")
        yield _row({"operator": EVERY, "direction": EVERY, "k": k}, name, "", interval, values)


def _row(
    cell: dict[str, object],
    name: str,
    control: str,
    interval: tuple[float, float, float],
    values: list[pd.DataFrame],
) -> dict[str, object]:
    defined = [both for both in values if len(both)]
    means = pd.DataFrame([both.mean() for both in defined], columns=["first", "second"]).mean()
    value, low, high = interval
    return {
        **cell,
        "contrast": name,
        "control": control,
        **means,
        "value": value,
        "low": low,
        "high": high,
        "pairs": sum(map(len, defined)),
        "cells": len(defined),
    }
