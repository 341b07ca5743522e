"""Verdicts of contrasts that were measured by one or several metrics."""

import pandas as pd

MIXED = "mixed"
"""The verdict on several operators of which it is yes for some and no for others."""

PRIMARY = "probability"
"""The metric that decides what ablated neurons do: that with the most power on constructed models.

Names of metrics that begin with it are of the same metric in another contrast.
"""
RATE = "rate"
"""The metric that decides what transfer does; likewise."""

_LEAST_FIRST = ("no", "undefined", MIXED, "undecided", "yes")


def deciding(contrasts: pd.DataFrame) -> pd.Series:
    """Of one question's contrasts, with verdicts: the one that decides.

    That is one by the primary metric, or by rates; of several, that which favours the circuit least.
    """
    primary = contrasts["metric"].str.startswith((PRIMARY, RATE))
    if primary.any():
        contrasts = contrasts[primary]
    placed = contrasts.assign(place=contrasts["verdict"].map(_LEAST_FIRST.index))
    return placed.sort_values(["place", "low"], kind="stable").drop(columns="place").iloc[0]
