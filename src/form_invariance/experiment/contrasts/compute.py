"""The table of contrasts of one model, from its measurements."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN, Cell, Measured
from form_invariance.experiment.contrasts.engine import RATIO, Pair, Value, compare
from form_invariance.experiment.contrasts.entries import Contrast, entries_of
from form_invariance.experiment.contrasts.noise import SOURCES
from form_invariance.experiment.contrasts.rivals import rival_rows
from form_invariance.experiment.contrasts.rows import rows, with_ratio
from form_invariance.experiment.contrasts.values import Values


def pair_of(values: Values, cell: Cell) -> Pair:
    """The two values of a cell, with those by either half of the prompts of rankings and of means."""
    by_half = {source: [values(cell.by(half)) for half in halves] for source, halves in SOURCES.items()}
    return _with_halves(values(cell), by_half)


def _with_halves(both: tuple[Value, Value], by_half: Mapping[str, Sequence[tuple[Value, Value]]]) -> Pair:
    """A pair of two values, with both values by either half, by source of noise."""
    halves = {
        source: np.array([[float(value.mean[0]) for value in side] for side in zip(*pairs, strict=True)])
        for source, pairs in by_half.items()
    }
    return replace(compare(*both), halves=halves)


def _cells(entry: Contrast, measured: Measured, **setting: Any) -> Mapping[tuple[str, str], Cell]:
    """The cells of an entry by format, or by direction, and operator."""
    places = {name: (name, "") for name in measured.formats}
    if not entry.means:
        places = {f"{donor}_to_{target}": (target, donor) for donor, target in permutations(measured.formats, 2)}
    return {
        (name, operator): Cell(
            measured, form, operator, positions=entry.positions, means=entry.means, donor=donor, **setting
        )
        for (name, (form, donor)), operator in product(places.items(), measured.operators)
    }


def _settings(entry: Contrast, measured: Measured) -> Iterator[dict[str, str]]:
    """The interventions, metrics and tasks of an entry."""
    tasks = entry.tasks or (OWN, OTHER_OPERATORS, COPYING, *measured.others)
    for intervention, metrics in entry.metrics.items():
        for metric, task in product(metrics, tasks):
            yield {"intervention": intervention, "metric": metric, "task": task}


def _rows(entry: Contrast, cells: Mapping[tuple[str, str], Cell]) -> Iterator[dict[str, Any]]:
    """The rows of an entry: for each cell, for each operator, and over all."""
    if not cells:
        return
    if entry.rivals is None:
        yield from rows({key: pair_of(entry.values, cell) for key, cell in cells.items()}, with_ratio)
        return
    pairs = {key: _rival_pairs(entry.rivals, cell) for key, cell in cells.items()}
    for row in rival_rows(pairs):
        yield {**row, **dict.fromkeys(RATIO, np.nan)}


def _rival_pairs(rivals: Callable[[Cell], Mapping[str, tuple[Value, Value]]], cell: Cell) -> dict[str, Pair]:
    """The pairs of a cell, by rival."""
    by_half = {source: [rivals(cell.by(half)) for half in halves] for source, halves in SOURCES.items()}
    unknown = cell.average([]), cell.average([])
    return {
        name: _with_halves(
            both,
            {source: [values.get(name, unknown) for values in of_halves] for source, of_halves in by_half.items()},
        )
        for name, both in rivals(cell).items()
    }


def contrasts_table(
    measured: Measured,
    sizes: Mapping[str, Sequence[int]],
    resamples: int,
    seed: int,
    entries: Mapping[str, Contrast] | None = None,
) -> pd.DataFrame:
    """The contrasts of every cell, of every operator and over all cells.

    Args:
        sizes: sizes k by configuration key, as in `Contrast.sizes`.
        resamples: bootstrap resamples.
        entries: default: all.
    """
    table = []
    for name, entry in (entries or entries_of(measured)).items():
        for k, setting in product(sorted(sizes[entry.sizes]), _settings(entry, measured)):
            how = {"measure": entry.measure(setting["intervention"]), "resamples": resamples, "seed": seed}
            cells = _cells(entry, measured, k=k, **setting, **how)
            table += [{"contrast": name, "k": k, **setting, **row} for row in _rows(entry, cells)]
    return pd.DataFrame(table)
