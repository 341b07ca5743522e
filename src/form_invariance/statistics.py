"""Ranks and intervals."""

import numpy as np
from scipy.special import ndtri, stdtrit

from form_invariance.randomness import generator

Z95 = float(ndtri(0.975))
"""Half the width of a 95 % normal interval, in standard errors."""

UNSEEN = -float(np.log(0.025))
"""An event in none of n trials has a probability of at most this / n (two-sided rule of three)."""


def ranks(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Rank neurons from 0 by value, largest first, ties by number. Every ranking of neurons uses this rule.

    Args:
        values: (..., C).
        numbers: the neurons' numbers, (C,), all different.

    Returns:
        Ranks, (..., C).
    """
    by_number = np.argsort(numbers)
    falling = -values[..., by_number]
    # An unstable sort is several times faster in numpy; ties are put in order afterwards.
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
    """Wilson's 95 % interval of a rate; NaN without trials.

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
    # The interval contains the rate; rounding must not exclude it.
    return np.clip(middle - half, 0, rate), np.clip(middle + half, rate, 1)


def bootstrap_weights(size: int, resamples: int, seed: int, *names: str) -> np.ndarray:
    """How often each of `size` items is drawn in each bootstrap resample, (resamples, size)."""
    drawn = generator(seed, "bootstrap", *names).integers(size, size=(resamples, size))
    return np.apply_along_axis(np.bincount, 1, drawn, minlength=size).astype(float)


def normal_limits(value: float, resampled: np.ndarray, unseen: float = 0.0) -> tuple[float, float]:
    """The 95 % normal interval around a value; its standard error is the deviation of the finite resamples.

    Args:
        unseen: half the interval where all resamples are equal, for instance by the rule of three.
    """
    resampled = resampled[np.isfinite(resampled)]
    if len(resampled) < 2 or np.isnan(value):
        return float("nan"), float("nan")
    half = Z95 * resampled.std(ddof=1)
    half = unseen if value - half == value + half else half
    return value - half, value + half


def less(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float, float]:
    """The difference of two independent values, with its lower and upper limit.

    Variances are recovered from the limits of both (Zou & Donner 2008), so intervals need not be symmetric.

    Args:
        first, second: value, lower and upper limit.
    """
    (value, low, high), (other, other_low, other_high) = first, second
    difference = value - other
    below, above = np.hypot(value - low, other_high - other), np.hypot(high - value, other - other_low)
    return difference, float(difference - below), float(difference + above)


def normal_interval(value: float, resampled: np.ndarray, unseen: float = 0.0) -> tuple[float, float]:
    """`normal_limits` of a value between 0 and 1, clipped to this range."""
    low, high = normal_limits(value, resampled, unseen)
    return (low, high) if np.isnan(low) else (max(0.0, low), min(1.0, high))


def resampled_interval(values: np.ndarray) -> tuple[float, float, float]:
    """The sample's value, which comes first, and the 95 % percentile interval of the resamples' values after it.

    The interval is NaN if the sample's value is, or if fewer than two resamples have a value.
    """
    resampled = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or len(resampled) < 2:
        return float(values[0]), float("nan"), float("nan")
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(values[0]), float(low), float(high)


def student_factor(count: int) -> float:
    """Half the 95 % interval of a mean of `count` draws, in standard errors; NaN below five draws.

    The standard error of fewer draws is itself too uncertain for an interval (method, section 7).
    """
    return float(stdtrit(count - 1, 0.975)) if count >= 5 else float("nan")
