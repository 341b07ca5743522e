"""The verdicts on exchanged neurons, on copying and on other operators, from the contrasts."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.beyond.specificity.damages import KEEP_ONLY, KNOCKOUT
from form_invariance.beyond.specificity.table import (
    ANY_OPERATOR,
    BEYOND,
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
    SPARED,
)
from form_invariance.experiment.contrasts import verdict
from form_invariance.experiment.questions import DIFFERENCE, SERVES
from form_invariance.experiment.verdicts import PRIMARY

_RATIOS = {
    (KNOCKOUT, EXCHANGED, PRIMARY): ("exchange", PRIMARY, "own best"),
    (KEEP_ONLY, EXCHANGED, PRIMARY): ("exchange", f"{PRIMARY} kept", "own best"),
    (KNOCKOUT, EXCHANGED, "accuracy"): ("exchange", "accuracy", "own best"),
    (KNOCKOUT, SPARED, PRIMARY): ("computed", PRIMARY, "copying"),
    (KNOCKOUT, SPARED, "accuracy"): ("computed", "accuracy", "copying"),
}
"""Of contrasts whose ratio decides: question, metric, control; by intervention, contrast and metric."""

_BEYOND_OPERATOR = f"{PRIMARY} {DIFFERENCE}"
"""The metric of the formats' best neurons compared with other operators' best."""

_OWN = {(OTHER_CIRCUITS, OWN): "", (BEYOND, OTHER_OPERATORS): " beyond control"}
"""What is added to the metric of a contrast of specificity, by contrast and task."""


def _named(contrasts: pd.DataFrame, columns: list[str], names: Mapping[Any, Any]) -> pd.Series:
    """The name of each row by its values of some columns; NaN without one."""
    keys = contrasts[columns].itertuples(index=False, name=None)
    return pd.Series(keys, index=contrasts.index, dtype=object).map(names)


def ratios(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts *exchange* and *computed*: a share of what the own neurons do, minus `SERVES`.

    Exchange: what the other formats' best neurons do. A missing part of a circuit may cost as much as all of it,
    and may leave as little as nothing. So what is lost by knockout and what is kept alone decide together: the
    first may be too large, the second too small. And the other formats' best must do more than the best of other
    operators in these formats. Computed: the share of the circuit's loss that copying does not suffer.
    """
    told = _named(contrasts, ["intervention", "contrast", "metric"], _RATIOS)
    rows = contrasts.assign(told=told).dropna(subset="told")
    names = pd.DataFrame(rows.pop("told").tolist(), rows.index, ["question", "metric", "control"])
    limits = {"difference": "ratio", "low": "ratio_low", "high": "ratio_high"}
    rows = rows.assign(**names, **{name: rows[ratio] - SERVES for name, ratio in limits.items()})
    rows = rows.assign(limit_error=rows["ratio_error"])
    rows = rows.assign(verdict=list(map(verdict, rows["low"], rows["high"], rows["limit_error"])))
    chosen = (contrasts["contrast"] == ANY_OPERATOR) & (contrasts["metric"] == PRIMARY) & (contrasts["cells"] > 0)
    beyond = contrasts[chosen & (contrasts["intervention"] == KNOCKOUT)]
    beyond = beyond.assign(question="exchange", metric=_BEYOND_OPERATOR, control="other operators' best")
    return pd.concat([rows, beyond])


def specific(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The verdict *specific*: a circuit's damage minus the strongest other one's, and minus that elsewhere.

    The second is beyond the strongest control's, since some operators are more fragile than others.
    """
    rows = contrasts[(contrasts["intervention"] == KNOCKOUT) & contrasts["metric"].isin([PRIMARY, "accuracy"])]
    told = rows["metric"] + _named(rows, ["contrast", "task"], _OWN)
    return rows.assign(question="specific", metric=told, control="other operators").dropna(subset="metric")
