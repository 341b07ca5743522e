"""The rows of a table of contrasts: for each cell, for each operator over its cells, and over all cells."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import (
    RATIO,
    ROUNDING,
    CellName,
    Pair,
    described,
    limits,
    over_cells,
    widened,
)
from form_invariance.experiment.contrasts.noise import of_sources, total
from form_invariance.tables.columns import ALL


def with_ratio(pair: Pair) -> dict[str, Any]:
    """The values of `COLUMNS` and `RATIO`; no ratio unless the second value's lower limit exceeds rounding."""
    lowest = limits(pair.second, pair.problems, pair.bounded)[0]
    if not lowest > ROUNDING:
        return described(pair) | dict.fromkeys(RATIO, np.nan)
    positive = pair.second > 0
    ratios = pair.first / np.where(positive, pair.second, 1)
    # A resample whose second value is not positive has the largest ratio if its first is positive, else 0.
    most = np.max(ratios, where=positive, initial=0)
    ratios = np.where(positive, ratios, np.where(pair.first > 0, most, 0))
    ratio, (low, high, error) = ratios[0], limits(ratios, pair.problems, bounded=False)
    if np.isnan(low):  # the ratio is the same in all resamples: take the limits of an event that was not seen
        unseen = limits(pair.first - ratio * pair.second, pair.problems, pair.bounded)[1]
        half = unseen * max(1, abs(ratio)) / lowest
        low, high, error = ratio - half, ratio + half, 0.0
    # To first order: the second value by half of the prompts may be too small to divide by.
    noise = total(of.half(lambda first, second: first - ratio * second) for of in pair.noise.values())
    low, high = widened(ratio, low, high, noise / pair.second[0])
    return described(pair) | dict(zip(RATIO, (ratio, low, high, error), strict=True))


def groups_of(cells: Iterable[CellName]) -> dict[tuple[str, str], list[CellName]]:
    """The cells of each row, by format (or direction) and operator: each cell, an operator's cells, and all."""
    cells = list(cells)
    by_operator: dict[str, list[CellName]] = {}
    for cell in cells:
        by_operator.setdefault(cell[1], []).append(cell)
    groups = {(cell[0], cell[1]): [cell] for cell in cells}
    return groups | {(ALL, operator): members for operator, members in by_operator.items()} | {(ALL, ALL): cells}


def rows(
    cells: Mapping[CellName, Pair],
    describe: Callable[[Pair], dict[str, Any]] = described,
    more: Callable[[Sequence[CellName]], dict[str, Any]] = lambda cells: {},
) -> Iterator[dict[str, Any]]:
    """A row for each cell, for each operator over its cells, and over all cells.

    Args:
        cells: by (format or direction, operator).
        more: further columns of a row, from its cells.
    """
    groups = groups_of(cells)
    pairs = {
        group: cells[members[0]] if len(members) == 1 else over_cells(cells[cell] for cell in members)
        for group, members in groups.items()
    }
    group_halves = {group: pair.halves for group, pair in pairs.items() if pair.defined}
    for (name, operator), members in groups.items():
        alike = [
            (of, halves) for (at, of), halves in group_halves.items() if (at == ALL) == (name == ALL) and of != ALL
        ]
        row = describe(replace(pairs[name, operator], noise=of_sources(alike, averaged=operator == ALL)))
        yield {"format": name, "operator": operator, **row, **more(members)}


def overall(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a table of contrasts over all cells and operators."""
    return table[(table["format"] == ALL) & (table["operator"] == ALL)]
