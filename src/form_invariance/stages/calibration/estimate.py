"""From a Jaccard to the share of each format's neurons that all formats have (method, section 11)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import brentq

Estimate = tuple[float, float, float]
"""Value, and lower and upper 95 % limit."""

UNDEFINED = (float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True)
class Overlap:
    """An overlap of the formats' top k, and what else the estimate needs; all of them Jaccards.

    Attributes:
        jaccard: of all formats, with its 95 % limits.
        chance: of random sets of the same sizes.
        across: of all formats, each ranked by a part of its prompts (`across_parts`).
        within: of as many parts of one format's prompts (`parts`), geometric mean over the formats, with the
            limits of its repeats: the ceiling of `across`.
    """

    formats: int
    jaccard: Estimate
    chance: float
    across: float
    within: Estimate


def overlap_at(overlap: pd.Series, reliability: pd.DataFrame) -> Overlap:
    """What the estimate needs, from the tables of one operator.

    Args:
        overlap: the row of the overlap table of all formats, pooled over the layers.
        reliability: the reliability table's rows of the same k.
    """
    parts = reliability[reliability["kind"] == "parts"]
    across = reliability.loc[reliability["kind"] == "across_parts", "jaccard"]
    with np.errstate(divide="ignore"):
        value, low, high = (float(np.exp(np.log(parts[name]).mean())) for name in ("jaccard", "low", "high"))
    return Overlap(
        str(overlap["formats"]).count("+") + 1,
        (overlap["jaccard"], overlap["low"], overlap["high"]),
        float(overlap["chance"]),
        float(across.iloc[0]) if len(across) else float("nan"),
        (value, low, high),
    )


def reliability_of(within: float, formats: int) -> float:
    """How often a neuron is in the set that a part of the prompts gives, from the Jaccard of a format's parts.

    A set has its neurons with probability p each, and is filled up with others that no other set has. Then of n
    sets of k neurons k pⁿ are in all, and k (1 - (1 - p)ⁿ) + n k (1 - p) in any.
    """
    if not 0 < within <= 1:
        return float("nan")

    def excess(p: float) -> float:  # grows with p
        return p**formats / (1 - (1 - p) ** formats + formats * (1 - p)) - within

    return float(brentq(excess, 0.0, 1.0, xtol=1e-15))


def shared_part(jaccard: float, formats: int, reliability: float = 1.0) -> float:
    """The share s of each format's neurons that all formats have; no other neuron is in two formats.

    J = s pⁿ / (n - s (n p - 1 + (1 - p)ⁿ)), as in `reliability_of`, solved for s. With p = 1 this is
    n J / (1 + (n - 1) J).
    """
    lost = formats * reliability - 1 + (1 - reliability) ** formats
    return formats * jaccard / (reliability**formats + jaccard * lost)


def jaccard_of(share: float, formats: int) -> float:
    """The Jaccard of sets that share this part of their neurons, without noise: the inverse of `shared_part`."""
    return share / (formats - (formats - 1) * share)


def estimate(measured: Overlap) -> Estimate:
    """The shared part, corrected for chance and for unreliable rankings, with its 95 % interval.

    The interval has two parts, added as squares: the Jaccard's own limits, relative to it, and the limits of the
    ceiling. Undefined where the ceiling is not above chance.
    """
    value, low, high = measured.jaccard
    relative = (low / value, high / value) if value else (1.0, 1.0)

    def part(across: float, within: float) -> float:
        reliability = reliability_of(within - measured.chance, measured.formats)
        return shared_part(max(0.0, across - measured.chance), measured.formats, reliability)

    middle, below, above = measured.within
    best = part(measured.across, middle)
    if np.isnan([best, *relative]).any():
        return UNDEFINED
    down = np.hypot(best - part(measured.across * relative[0], middle), best - part(measured.across, above))
    # A ceiling whose lower limit is chance sets no upper limit.
    up = np.hypot(part(measured.across * relative[1], middle) - best, part(measured.across, below) - best)
    return _share(best), _share(best - down), 1.0 if np.isnan(up) else _share(best + up)


def _share(value: float) -> float:
    return float(np.clip(value, 0.0, 1.0))
