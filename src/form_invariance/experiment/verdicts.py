"""Verdicts of contrasts that were measured by one or several metrics."""

import pandas as pd

from form_invariance.experiment.contrasts import ALL
from form_invariance.experiment.questions import SMALLEST

MIXED = "mixed"
"""The verdict on several operators of which it is yes for some and no for others."""

TINY = "yes, tiny"
"""A yes whose difference is too small to be of interest."""

FEWEST_PAIRS = 10
"""Of transfer: with fewer in all cells together a verdict is undefined."""

PRIMARY = "probability"
"""The metric that decides what ablated neurons do: that with the most power on constructed models.

Names of metrics that begin with it are of the same metric in another contrast.
"""
RATE = "rate"
"""The metric that decides what transfer does; likewise."""

_LEAST_FIRST = ("no", "undefined", MIXED, "undecided", TINY, "yes")
_CONTRAST = ("question", "intervention", "contrast", "task", "metric", "neurons", "family", "k")
"""The columns, as far as a table has them, that tell one contrast from another."""


def worded(verdict: str, difference: float) -> str:
    """A verdict as texts say it."""
    return TINY if verdict == "yes" and difference < SMALLEST else verdict


def with_mixed(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts whose verdicts over all operators are `mixed` where an operator's is yes and another's is no."""
    over = (contrasts[[name for name in ("format", "direction") if name in contrasts]] == ALL).all(axis=1)
    keys = [contrasts[name] for name in _CONTRAST if name in contrasts]
    pooled = contrasts["operator"] == ALL
    of_operator = contrasts["verdict"].where(over & ~pooled)
    yes, no = (of_operator.eq(word).groupby(keys).transform("any") for word in ("yes", "no"))
    return contrasts.assign(verdict=contrasts["verdict"].mask(over & pooled & yes & no, MIXED))


def in_words(contrasts: pd.DataFrame) -> pd.DataFrame:
    """Contrasts with the verdicts that the report's first table says of them: mixed, or tiny, too.

    A difference of other metrics than accuracies, probabilities and rates is never tiny.
    """
    mixed = with_mixed(contrasts)
    words = [worded(*row) for row in zip(mixed["verdict"], mixed["difference"], strict=True)]
    others = ~mixed["metric"].isin(["accuracy", PRIMARY]) if "metric" in mixed else mixed["verdict"] == ""
    return mixed.assign(verdict=pd.Series(words, mixed.index, object).mask(others, mixed["verdict"]))


def deciding(contrasts: pd.DataFrame) -> pd.Series:
    """Of one question's contrasts, with verdicts: the one that decides.

    That is one by the primary metric, or by rates; of several, that which favours the circuit least.
    """
    primary = contrasts["metric"].str.startswith((PRIMARY, RATE))
    if primary.any():
        contrasts = contrasts[primary]
    placed = contrasts.assign(place=contrasts["verdict"].map(_LEAST_FIRST.index))
    return placed.sort_values(["place", "low"], kind="stable").drop(columns="place").iloc[0]
