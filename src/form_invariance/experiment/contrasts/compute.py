"""The table of contrasts of one model, from its measurements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN, Cell, Measured
from form_invariance.experiment.contrasts.engine import Pair, compare
from form_invariance.experiment.contrasts.entries import CONTRASTS, Contrast, Values
from form_invariance.experiment.contrasts.rows import rows, with_ratio
from form_invariance.experiment.neuron_sets import HALVES


def pair_of(values: Values, cell: Cell) -> Pair:
    """The two values of a cell, with those by either half of the train prompts."""
    by_half = [values(cell.by(half)) for half in HALVES]
    halves = np.array([[float(value.mean[0]) for value in sides] for sides in zip(*by_half, strict=True)])
    return replace(compare(*values(cell)), halves=halves)


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


def _asked(entry: Contrast, measured: Measured) -> Iterator[dict[str, str]]:
    """The interventions, metrics and tasks of an entry."""
    tasks = entry.tasks or (OWN, OTHER_OPERATORS, COPYING, *measured.others)
    for intervention, metrics in entry.metrics.items():
        for metric, task in product(metrics, tasks):
            yield {"intervention": intervention, "metric": metric, "task": task}


def contrasts_table(
    measured: Measured, ks: Sequence[int], resamples: int, seed: int, entries: Mapping[str, Contrast] = CONTRASTS
) -> pd.DataFrame:
    """The contrasts of every cell, of every operator and over all cells.

    Args:
        ks: circuit sizes.
        resamples: of the bootstrap.
    """
    table = []
    for k, (name, entry) in product(sorted(ks), entries.items()):
        for asked in _asked(entry, measured):
            how = {"measure": entry.measure(asked["intervention"]), "resamples": resamples, "seed": seed}
            cells = _cells(entry, measured, k=k, **asked, **how)
            pairs = {key: pair_of(entry.values, cell) for key, cell in cells.items()}
            table += [
                {"contrast": name, "k": k, **asked, **row} for row in (rows(pairs, with_ratio) if pairs else ())
            ]
    return pd.DataFrame(table)
