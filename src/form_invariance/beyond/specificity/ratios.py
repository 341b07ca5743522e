"""The ratio of two damages, with its interval."""

from typing import Any

import numpy as np

from form_invariance.beyond.specificity.table import RATIO
from form_invariance.experiment.contrasts import ROUNDING, Pair, described, limits, widened


def with_ratio(pair: Pair, sign: int) -> dict[str, Any]:
    """The measured columns of one contrast; no ratio where the second damage is not surely above rounding."""
    second = limits(pair.second, pair.problems, pair.bounded)[:2]
    ratios, sure = np.full(len(pair.first), np.nan), second[0] > ROUNDING
    if sure:
        known = pair.second > 0
        ratios = pair.first / np.where(known, pair.second, 1)
        # Where a resample has nothing to divide by, the first is the larger one by far, or neither is anything.
        most = np.max(ratios, where=known, initial=0)
        ratios = np.where(known, ratios, np.where(pair.first > 0, most, 0))
    values = ratios[0], *limits(ratios, pair.problems, bounded=False)
    if np.isnan(values[1]) and sure:  # no resample changes the ratio: what was not seen on any prompt
        unseen = limits(pair.first - ratios[0] * pair.second, pair.problems, pair.bounded)[1]
        half = unseen * max(1, abs(ratios[0])) / second[0]
        values = ratios[0], ratios[0] - half, ratios[0] + half, 0.0
    ratio, low, high, error = values
    if pair.noise and sure:
        # To first order, because the second damage by half of the train prompts may be next to nothing.
        noise = pair.noise.half(lambda one, other: one - ratio * other) / pair.second[0]
        low, high = widened(ratio, low, high, float(np.nan_to_num(noise)))
    return described(pair, sign) | dict(zip(RATIO, (ratio, low, high, error), strict=True))
