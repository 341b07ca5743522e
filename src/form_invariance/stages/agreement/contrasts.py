"""Shared neurons compared with neurons that are not shared: their labels, and equal families in every format."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.stages.contrasts import (
    ALL,
    Pair,
    Problem,
    described,
    over_cells,
    resampled,
    resampling,
    strongest,
)
from form_invariance.stages.heuristics.names import MATCHED, SHARED

RESAMPLES = 2000


def unpaired(first: np.ndarray, second: np.ndarray, operator: str, control: str = "") -> Pair:
    """Two means over neurons, (n,) and (m,), of one operator; each kind of neurons is resampled by itself."""
    neurons: list[list[Problem]] = [
        [(operator, kind, place) for place in range(len(values))]
        for kind, values in ((SHARED, first), (control, second))
    ]
    one, other = (
        resampled(values, resampling(own, RESAMPLES, 0))
        for values, own in zip((first, second), neurons, strict=True)
    )
    return Pair(one, other, (min(neurons, key=len),), control)


def label_difference(shared: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Mean over operators of the difference of two kinds' shares, as `contrasts.described`."""
    operators = sorted(shared.keys() & other.keys())
    return described(over_cells(unpaired(shared[one], other[one], one) for one in operators))


def same_families(agreement: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Exact match of the shared neurons, and of the matched ones that agree most: of each operator and of all.

    Args:
        agreement: agreement tables with the column operator.

    Yields:
        over (all: neurons labelled in every format; any: in some format), operator, and `contrasts.COLUMNS`.
    """
    wanted = {"mode": "strict", "activations": "observed", "scope": "all", "statistic": "exact"}
    table = agreement[(agreement[[*wanted]] == pd.Series(wanted)).all(axis=1)]
    for over in ("all", "any"):
        pairs = {}
        for operator, rows in table[table["over"] == over].groupby("operator", sort=False):
            hits = (rows["observed"].fillna(0) * rows["neurons"]).round().astype(int)
            each = zip(rows["kind"], hits, rows["neurons"], strict=True)
            values = {kind: np.repeat([1.0, 0.0], [same, number - same]) for kind, same, number in each}
            control = strongest({kind: values[kind] for kind in MATCHED if kind in values})
            other = values.get(control, np.empty(0))
            pairs[str(operator)] = unpaired(values[SHARED], other, str(operator), control)
        every = {**pairs, ALL: over_cells(pairs.values())} if pairs else {}
        yield from ({"over": over, "operator": name, **described(pair)} for name, pair in every.items())
