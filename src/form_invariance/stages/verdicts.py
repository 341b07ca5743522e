"""Verdicts of contrasts that were measured by one or several metrics."""

import pandas as pd

MIXED = "mixed"
"""The verdict on several operators of which it is yes for some and no for others."""

PRIMARY = "probability"
"""The metric that decides whether ablated neurons matter: that with the most power on constructed models."""

_LEAST_FIRST = ("no", "undefined", MIXED, "undecided", "yes")


def deciding(contrasts: pd.DataFrame) -> pd.Series:
    """Of one question's contrasts, with verdicts: the one that decides.

    That is the one by the primary metric; where a question is asked against several nulls instead, the one that
    favours the circuit least.
    """
    if (contrasts["metric"] == PRIMARY).any():
        contrasts = contrasts[contrasts["metric"] == PRIMARY]
    placed = contrasts.assign(place=contrasts["verdict"].map(_LEAST_FIRST.index))
    return placed.sort_values(["place", "low"], kind="stable").drop(columns="place").iloc[0]
