"""From a Jaccard to the share of each format's neurons that all formats have.

A part of the prompts gives a set that has each circuit neuron with probability p; the rest of the set are neurons
that no other set has. A neuron is in the circuits of all n formats or of one.
"""

import numpy as np
from planted_models import TEMPLATES
from scipy.optimize import brentq

from form_invariance.tables.columns import EVERY_LAYER


def reliability_of(within, n):
    """p, from the Jaccard of n parts of one format's prompts: of k neurons k pⁿ are in all sets."""
    if not 0 < within <= 1:
        return np.nan
    return brentq(lambda p: p**n / (1 - (1 - p) ** n + n * (1 - p)) - within, 0.0, 1.0, xtol=1e-15)


def shared_part(jaccard, n, p=1.0):
    """The share s: J = s pⁿ / (n - s (n p - 1 + (1 - p)ⁿ)); with p = 1 it is n J / (1 + (n - 1) J)."""
    return n * jaccard / (p**n + jaccard * (n * p - 1 + (1 - p) ** n))


def estimate(overlap, reliability):
    """The shared part with its 95 % limits, from the tables of one operator and k.

    Chance is subtracted from both Jaccards. The interval adds two parts as squares: the relative limits of the
    Jaccard's bootstrap, and the limits of `parts` over their repeats.
    """
    every = "+".join(TEMPLATES)
    (row,) = overlap[(overlap["layer"] == EVERY_LAYER) & (overlap["formats"] == every)].to_dict("records")
    kinds = reliability.set_index("kind")
    across = kinds.loc["across_parts", "jaccard"]
    with np.errstate(divide="ignore"):
        middle, below, above = np.exp(np.log(kinds.loc["parts", ["jaccard", "low", "high"]]).mean())

    def part(across, within):
        p = reliability_of(within - row["chance"], len(TEMPLATES))
        return shared_part(max(0.0, across - row["chance"]), len(TEMPLATES), p)

    low, high = (row[side] / row["jaccard"] if row["jaccard"] else 1.0 for side in ("low", "high"))
    best = part(across, middle)
    down = np.hypot(best - part(across * low, middle), best - part(across, above))
    up = np.hypot(part(across * high, middle) - best, part(across, below) - best)
    return np.clip([best, best - down, 1.0 if np.isnan(up) else best + up], 0, 1)
