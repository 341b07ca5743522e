"""The verdicts on exchanged neurons and on other operators, from the contrasts."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.beyond.specificity.damages import KEEP_ONLY, KNOCKOUT
from form_invariance.beyond.specificity.table import (
    BEYOND,
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
)
from form_invariance.experiment.contrasts import verdict
from form_invariance.experiment.questions import SERVES
from form_invariance.experiment.verdicts import PRIMARY

_EXCHANGED = {
    (KNOCKOUT, EXCHANGED, PRIMARY): PRIMARY,
    (KEEP_ONLY, EXCHANGED, PRIMARY): f"{PRIMARY} kept",
    (KNOCKOUT, EXCHANGED, "accuracy"): "accuracy",
}
"""Names of metrics in verdicts, by intervention, contrast and metric: contrasts of the formats' best neurons."""

_OWN = {(OTHER_CIRCUITS, OWN): "", (BEYOND, OTHER_OPERATORS): " beyond control"}
"""What is added to the metric of a contrast of specificity, by contrast and task."""


def _named(contrasts: pd.DataFrame, columns: list[str], names: Mapping[Any, str]) -> pd.Series:
    """The name of each row by its values of some columns; NaN without one."""
    keys = contrasts[columns].itertuples(index=False, name=None)
    return pd.Series(keys, index=contrasts.index, dtype=object).map(names)


def exchanged(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The verdict *exchange*: what the other formats' best do, as a share of what the own do, minus `SERVES`.

    A part of a circuit that is missing may cost as much as all of it, and may leave as little as nothing. So what
    is lost by knockout and what is kept alone decide together: the first may be too large, the second too small.
    """
    told = _named(contrasts, ["intervention", "contrast", "metric"], _EXCHANGED)
    rows = contrasts.assign(metric=told).dropna(subset="metric")
    limits = {"difference": "ratio", "low": "ratio_low", "high": "ratio_high"}
    rows = rows.assign(**{name: rows[ratio] - SERVES for name, ratio in limits.items()})
    rows = rows.assign(question="exchange", control="own best", limit_error=rows["ratio_error"])
    return rows.assign(verdict=list(map(verdict, rows["low"], rows["high"], rows["limit_error"])))


def specific(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The verdict *specific*: a circuit's damage compared with other circuits', and with that to other operators.

    The second is beyond the strongest control's, since some operators are more fragile than others.
    """
    rows = contrasts[(contrasts["intervention"] == KNOCKOUT) & contrasts["metric"].isin([PRIMARY, "accuracy"])]
    told = rows["metric"] + _named(rows, ["contrast", "task"], _OWN)
    return rows.assign(question="specific", metric=told, control="other operators").dropna(subset="metric")
