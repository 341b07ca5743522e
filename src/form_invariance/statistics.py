"""Ranks, intervals and chance levels."""

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri, stdtrit

from form_invariance.randomness import generator

Z95 = float(ndtri(0.975))
"""Half a 95 % normal interval, in standard errors."""

UNSEEN = -float(np.log(0.025))
"""What was seen in none of n trials has a share of at most this / n: the rule of three for two sides."""

_NEGLIGIBLE = 1e-14

TRIMMED = 0.1
"""Share of the prompts left out at each end of the trimmed mean."""


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


def trimmed_mean(effects: np.ndarray) -> np.ndarray:
    """Mean over the prompts without the lowest and highest 10 %, of effects (P, C); (C,).

    `scipy.stats.trim_mean` adds in another order and differs in the last digit.
    """
    cut = int(len(effects) * TRIMMED)
    return np.asarray(np.sort(effects, axis=0)[cut : len(effects) - cut].mean(0))


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


def _hypergeometric(population: int, marked: int, drawn: int, log_factorial: np.ndarray) -> np.ndarray:
    """Probability of 0..drawn marked ones among `drawn` of `population`, (drawn + 1,).

    `scipy.stats.hypergeom` is accurate to 1e-12 only and differs in the last digits.
    """
    hits = np.arange(drawn + 1)
    possible = (hits <= marked) & (drawn - hits <= population - marked)
    h = hits[possible]

    def log_choose(n: int, r: np.ndarray | int) -> np.ndarray:
        return np.asarray(log_factorial[n] - log_factorial[r] - log_factorial[n - r])

    result = np.zeros(drawn + 1)
    result[possible] = np.exp(
        log_choose(marked, h) + log_choose(population - marked, drawn - h) - log_choose(population, drawn)
    )
    return result


def expected_jaccard(sizes: Sequence[int], width: int, seed: int = 0) -> float:
    """Expected |intersection| / |union| of independent uniform subsets of `width` elements.

    Exact for two and three sets; for more, the mean of 100,000 seeded draws of the two counts.

    Two sets of a and b elements meet in x ~ Hypergeometric(width, a, b) elements; their union has w = a + b - x.
    A third one of c elements brings u ~ Hypergeometric(width, width - w, c) new ones. Of its c - u others, in the
    mean (c - u) x / w lie in the first two's intersection. So
    E = Σ_x Σ_u P(x) P(u | x) (c - u) x / (w (w + u)).

    Args:
        sizes: of the sets, at least two, each at most `width`. Without any element it is not a number.
        width: size of the whole.
    """
    if not any(sizes):
        return float("nan")
    a, b, *others = sizes
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, width + 1)))])
    overlap = _hypergeometric(width, a, b, log_factorial)
    # Sets that do not meet add nothing, so no division by an empty union.
    x = np.flatnonzero((overlap > _NEGLIGIBLE) & (np.arange(b + 1) > 0))
    if not others:
        return float((overlap[x] * x / (a + b - x)).sum())
    if len(others) == 1:
        new = np.arange(others[0] + 1)
        total = 0.0
        for common in x.tolist():
            union = a + b - common
            chance = _hypergeometric(width, width - union, others[0], log_factorial)
            total += overlap[common] * (chance * (others[0] - new) * common / (union * (union + new))).sum()
        return float(total)
    rng = generator(seed, "expected-jaccard", *sizes, width)
    shared = whole = np.full(100_000, a)
    for size in sizes[1:]:
        fresh = rng.hypergeometric(width - whole, whole, size)
        shared = rng.hypergeometric(shared, whole - shared, size - fresh)
        whole = whole + fresh
    return float((shared / whole).mean())
