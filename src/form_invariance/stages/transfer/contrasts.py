"""What transfer does beyond injecting an answer: contrasts between its conditions (method, section 8)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts import NO_CONTROL, Pair, paired, problems_of, rows, strongest
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.stages.transfer.names import BASELINES, BY_HALVES, COPIED_ANSWER, COPIED_OTHER, DRAWN
from form_invariance.stages.transfer.table import with_direction

_CELL = ["direction", "operator", "k"]
Key = tuple[Any, ...]
Cells = Mapping[Key, pd.DataFrame]
"""Means by pair of every cell (direction, operator, k)."""

Contrast = Callable[[pd.DataFrame], tuple[pd.Series, pd.Series, str]]
"""From a cell's means by pair: the two values of each pair, and the name of the control, if there is one."""


def _minus(other: str) -> Contrast:
    return lambda cell: (cell["recovered", "matched"], cell["recovered", other], "")


def _imposed(condition: str) -> Contrast:
    """How often the donor's answer comes out, beyond what donors that are permuted among the pairs would give."""
    return lambda cell: (cell["donor_answer", condition], cell["permuted_answer", condition], "")


def _minus_copied(cell: pd.DataFrame) -> tuple[pd.Series, pd.Series, str]:
    """How often the donor's answer comes out if it was computed, beyond the same answer that was copied."""
    return cell["donor_answer", "interchange"], cell["donor_answer", COPIED_OTHER], ""


def _minus_baseline(cell: pd.DataFrame) -> tuple[pd.Series, pd.Series, str]:
    """The strongest baseline recovers most in this cell, in the mean over its draws."""
    control = strongest({name: cell["recovered", name].dropna().to_numpy() for name in BASELINES})
    second = pd.Series(np.nan, cell.index) if control == NO_CONTROL else cell["recovered", control]
    return cell["recovered", "matched"], second, control


CONTRASTS: dict[str, Contrast] = {
    "matched_minus_baseline": _minus_baseline,
    "matched_minus_same_answer": _minus("same_answer"),
    "matched_minus_copied_answer": _minus(COPIED_ANSWER),
    "imposed": _imposed("mismatched"),
    "interchange": _imposed("interchange"),
    "interchange_minus_copied": _minus_copied,
    "matched_minus_mismatched": _minus("mismatched"),
}
"""By name, as in the table."""


def _by_pair(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over draws: rows are cells and operands, columns (value, condition)."""
    conditions = ["matched", "same_answer", "interchange", COPIED_ANSWER, COPIED_OTHER, *BASELINES]
    values = ["recovered", "donor_answer", "permuted_answer"]
    chosen = pairs[pairs["condition"].isin(conditions)].astype(dict.fromkeys(values, float))
    means = chosen.groupby([*_CELL, "a", "b", "condition"])[values].mean()
    wide = pd.DataFrame(means.unstack("condition"))
    return wide.reindex(columns=pd.MultiIndex.from_product([values, conditions]))


def contrast_table(
    transfer: pd.DataFrame, pairs: pd.DataFrame, resamples: int, seed: int, names: Iterable[str] = CONTRASTS
) -> pd.DataFrame:
    """The contrasts of every cell (direction, operator) and k, of every operator and over all cells.

    Args:
        transfer: transfer tables with the column operator; they say which cells there are.
        pairs: tables by pair with the column operator.
        resamples: bootstrap resamples.
        names: of the contrasts.
    """
    cells = with_direction(transfer).loc[transfer["condition"] == "matched", _CELL].drop_duplicates()
    pairs = with_direction(pairs)
    keys = list(cells.itertuples(index=False, name=None))
    by_cell, *by_half = (_by_cell(pairs, keys, half) for half in ("", *HALVES))
    drawn = pairs[pairs["condition"].isin(DRAWN)].astype({"recovered": float})
    by_draw = drawn.groupby([*_CELL, "condition", "seed"])["recovered"].mean()
    return pd.DataFrame([row for name in names for row in _rows(name, by_cell, by_half, by_draw, resamples, seed)])


def _by_cell(pairs: pd.DataFrame, keys: Sequence[Key], half: str) -> Cells:
    """Means over draws in every cell, with the circuit or with that by half of the train prompts."""
    if half:
        repeated = pairs[pairs["condition"].str.startswith(half)]
        others = pairs[pairs["condition"].isin(set(BASELINES) - set(BY_HALVES))]
        pairs = pd.concat([others, repeated.assign(condition=repeated["condition"].str.removeprefix(half))])
    by_pair = _by_pair(pairs)
    by_cell: dict[Key, pd.DataFrame] = dict(iter(by_pair.groupby(_CELL, sort=False)))
    return {key: by_cell.get(key, by_pair.iloc[:0]) for key in keys}


def _means(name: str, cell: pd.DataFrame) -> np.ndarray:
    """Means of a contrast's two values over the pairs that have both, (2,)."""
    first, second, _ = CONTRASTS[name](cell)
    return pd.concat([first, second], axis=1).dropna().mean().to_numpy(float)


def _rows(
    name: str, by_cell: Cells, by_half: Sequence[Cells], by_draw: pd.Series, resamples: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of one contrast, for each k."""
    for size in sorted({k for _, _, k in by_cell}):
        pairs: dict[tuple[str, str], Pair] = {}
        for (direction, operator, k), cell in by_cell.items():
            if k == size:
                first, second, control = CONTRASTS[name](cell)
                values = first.to_numpy(float), second.to_numpy(float)
                operands = (cell.index.get_level_values(name).to_numpy() for name in ("a", "b"))
                draws = {}
                if control in DRAWN:
                    draws = {f"{operator} {control}": by_draw[direction, operator, k, control].to_numpy()}
                problems = problems_of(operator, *operands)
                pair = paired(*values, problems, resamples, seed, control, draws)
                halves = [_means(name, half[direction, operator, k]) for half in by_half]
                pairs[direction, operator] = replace(pair, halves=np.stack(halves, 1))
        for row in rows(pairs, "direction"):
            yield {"k": size, "contrast": name, **row}
