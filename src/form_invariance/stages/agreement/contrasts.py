"""Shared neurons compared with others: labels, equal families, and correlation of activations across formats."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import (
    Pair,
    Value,
    compare,
    described,
    over_cells,
    resampled,
    resampling,
    strongest,
)
from form_invariance.stages.heuristics.names import BASELINES, MATCHED_BASELINES, SHARED
from form_invariance.tables.columns import ALL

RESAMPLES = 2000


def unpaired(
    first: np.ndarray, second: np.ndarray, operator: str, control: str = "", bounded: bool = True
) -> Pair:
    """Two means over neurons, (n,) and (m,), of one operator; each kind of neurons is resampled by itself."""

    def mean(values: np.ndarray, kind: str) -> Value:
        neurons = [(operator, kind, number) for number in range(len(values))]
        return Value(resampled(values, resampling(neurons, RESAMPLES, 0)), neurons, bounded=bounded)

    return compare(mean(first, SHARED), replace(mean(second, control), control=control))


def label_difference(shared: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Mean over operators of the difference of two kinds' shares, as `contrasts.described`."""
    operators = sorted(shared.keys() & other.keys())
    return described(over_cells(unpaired(shared[operator], other[operator], operator) for operator in operators))


def same_families(agreement: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Exact agreement of the shared neurons minus that of the baseline that agrees most, by operator and of all.

    Args:
        agreement: agreement tables with the column operator.

    Yields:
        over (all: neurons labelled in every format; any: in some format), operator, and `contrasts.COLUMNS`.
    """
    criteria = {"mode": "strict", "activations": "observed", "scope": "all", "statistic": "exact"}
    table = agreement[(agreement[[*criteria]] == pd.Series(criteria)).all(axis=1)]
    for over in ("all", "any"):
        values = {}
        for operator, rows in table[table["over"] == over].groupby("operator", sort=False):
            hits = (rows["observed"].fillna(0) * rows["neurons"]).round().astype(int)
            each = zip(rows["kind"], hits, rows["neurons"], strict=True)
            values[str(operator)] = {
                kind: np.repeat([1.0, 0.0], [same, number - same]) for kind, same, number in each
            }
        yield from ({"over": over, **row} for row in _against_strongest(values, tuple(MATCHED_BASELINES)))


def by_neuron(correlation: pd.DataFrame) -> pd.Series:
    """Mean correlation over pairs of formats, by operator, kind, layer and neuron; NaN where one is undefined.

    Args:
        correlation: tables of activation correlations with the column operator.
    """
    pairs = correlation.set_index(["operator", "kind", "layer", "neuron", "formats"])["correlation"]
    return pairs.unstack("formats").mean(axis=1, skipna=False)


def correlated(neurons: pd.Series) -> Iterator[dict[str, Any]]:
    """Correlation of the shared neurons minus that of the baseline that correlates most, by operator and of all.

    Args:
        neurons: from `by_neuron`; those without a correlation are left out.

    Yields:
        operator, and `contrasts.COLUMNS`.
    """
    values: dict[str, dict[str, np.ndarray]] = {}
    for (operator, kind), correlations in neurons.dropna().groupby(["operator", "kind"]):
        values.setdefault(str(operator), {})[str(kind)] = correlations.to_numpy()
    yield from _against_strongest(values, BASELINES, bounded=False)


def _against_strongest(
    values: Mapping[str, Mapping[str, np.ndarray]], baselines: Sequence[str], bounded: bool = True
) -> Iterator[dict[str, Any]]:
    """Mean over the shared neurons minus that over the baseline with the largest mean, by operator and of all.

    Args:
        values: the neurons' values, (n,), by operator and kind.
        bounded: as in `contrasts.Pair`.
    """
    pairs, nobody = {}, np.empty(0)
    for operator, kinds in values.items():
        present = [kind for kind in baselines if len(kinds.get(kind, nobody))]
        control = strongest({kind: float(kinds[kind].mean()) for kind in present})
        shared_values, control_values = kinds.get(SHARED, nobody), kinds.get(control, nobody)
        pairs[operator] = unpaired(shared_values, control_values, operator, control, bounded)
    all_pairs = {**pairs, ALL: over_cells(pairs.values())} if pairs else {}
    yield from ({"operator": name, **described(pair)} for name, pair in all_pairs.items())
