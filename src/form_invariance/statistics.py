"""Ranks and intervals."""

import numpy as np
from scipy.special import ndtri, stdtrit

from form_invariance.randomness import generator

Z95 = float(ndtri(0.975))
"""Half a 95 % normal interval, in standard errors."""

UNSEEN = -float(np.log(0.025))
"""What was seen in none of n trials has a share of at most this / n: the rule of three for two sides."""


def ranks(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The one rule by which neurons are ranked: rank from 0 by value, largest first, ties by number.

    Args:
        values: (..., C).
        numbers: of the neurons, (C,), all different.

    Returns:
        (..., C).
    """
    by_number = np.argsort(numbers)
    falling = -values[..., by_number]
    # Without kind="stable" numpy sorts several times faster; ties are put in order afterwards.
    order = np.argsort(falling, axis=-1)
    ordered = np.take_along_axis(falling, order, axis=-1)
    differs = ordered[..., 1:] != ordered[..., :-1]
    if not differs.all():
        order[..., 1:] += len(numbers) * differs.cumsum(-1)
        order = np.sort(order, axis=-1) % len(numbers)
    placed = np.empty_like(order)
    places = np.broadcast_to(np.arange(len(numbers)), order.shape)
    np.put_along_axis(placed, by_number[order], places, axis=-1)
    return placed


def wilson(successes: np.ndarray, trials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of a rate; not a number where there are no trials.

    Args:
        successes: (n,).
        trials: (n,).

    Returns:
        Lower and upper limits, (n,) each.
    """
    trials = np.where(trials == 0, np.nan, trials)
    rate = successes / trials
    scale = 1 + Z95**2 / trials
    middle = (rate + Z95**2 / (2 * trials)) / scale
    half = Z95 / scale * np.sqrt(rate * (1 - rate) / trials + Z95**2 / (4 * trials**2))
    # It holds the rate itself; rounding alone could leave it out.
    return np.clip(middle - half, 0, rate), np.clip(middle + half, rate, 1)


def bootstrap_weights(size: int, resamples: int, seed: int, *names: str) -> np.ndarray:
    """How often each of `size` items is drawn in each bootstrap resample, (resamples, size)."""
    drawn = generator(seed, "bootstrap", *names).integers(size, size=(resamples, size))
    return np.apply_along_axis(np.bincount, 1, drawn, minlength=size).astype(float)


def normal_limits(value: float, resampled: np.ndarray, unseen: float = 0.0) -> tuple[float, float]:
    """The 95 % normal interval around a value, with the standard error of its resamples that are finite.

    Args:
        unseen: half of the interval where no resample differs, for instance by the rule of three.
    """
    resampled = resampled[np.isfinite(resampled)]
    if len(resampled) < 2 or np.isnan(value):
        return float("nan"), float("nan")
    half = Z95 * resampled.std(ddof=1)
    half = unseen if value - half == value + half else half
    return value - half, value + half


def less(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float, float]:
    """The difference of two independent values with its limits, from the values and their own limits.

    Limits are recovered variances (Zou & Donner 2008), so intervals need not be symmetric.

    Args:
        first, second: value, lower and upper limit.
    """
    (value, low, high), (other, other_low, other_high) = first, second
    difference = value - other
    below, above = np.hypot(value - low, other_high - other), np.hypot(high - value, other - other_low)
    return difference, float(difference - below), float(difference + above)


def normal_interval(value: float, resampled: np.ndarray, unseen: float = 0.0) -> tuple[float, float]:
    """The same for a value between 0 and 1, whose limits are, too."""
    low, high = normal_limits(value, resampled, unseen)
    return (low, high) if np.isnan(low) else (max(0.0, low), min(1.0, high))


def resampled_interval(values: np.ndarray) -> tuple[float, float, float]:
    """The sample's value, which is the first, and the 95 % percentile interval of the resamples' after it.

    The interval is NaN where the value is, or where fewer than two resamples have one.
    """
    resampled = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or len(resampled) < 2:
        return float(values[0]), float("nan"), float("nan")
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(values[0]), float(low), float(high)


def student_factor(count: int) -> float:
    """Half a 95 % interval of a mean, in standard errors, of `count` draws; not a number below five.

    The standard error of so few draws is itself too uncertain for an interval (method, section 7).
    """
    return float(stdtrit(count - 1, 0.975)) if count >= 5 else float("nan")
