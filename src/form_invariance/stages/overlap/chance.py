"""The overlap of random sets: of all neurons of a layer, and of each format's candidates.

Only candidates can be among the best, and formats have many of them in common. So random candidates overlap more
than random neurons, and the more, the larger a part of the candidates is drawn.
"""

from functools import lru_cache

import numpy as np

from form_invariance.randomness import generator

DRAWS = 2000
"""Where the mean is not exact, its standard error is a 45th of the spread."""

Regions = tuple[tuple[tuple[bool, ...], int], ...]
"""Which of several sets a neuron may be in, and how many neurons these are; a neuron is in one region."""

_NEGLIGIBLE = 1e-14


def one_region(sets: int, width: int) -> Regions:
    """The region where each of `width` neurons may be in all sets."""
    return (((True,) * sets, width),)


def regions_of(candidates: np.ndarray) -> Regions:
    """The regions of candidates, from masks (sets, width)."""
    may, counts = np.unique(candidates.T, axis=0, return_counts=True)
    return tuple((tuple(sets), n) for sets, n in zip(may.tolist(), counts.tolist(), strict=True) if any(sets))


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


def expected_jaccard(sizes: tuple[int, ...], regions: Regions, seed: int = 0) -> float:
    """Expected |intersection| / |union| of random sets; not a number where all are empty.

    Exact for two sets, and for three of the same candidates; otherwise the mean of `random_jaccards`.

    Of the first set's a members h ~ Hypergeometric(candidates of the first, of both, a) may be in the second. Of
    its b members x ~ Hypergeometric(candidates of the second, h, b) are among these; the union has w = a + b - x.
    A third one of c members brings u ~ Hypergeometric(candidates, candidates - w, c) new ones. Of its c - u
    others, in the mean (c - u) x / w lie in the first two's intersection. So
    E = Σ_x Σ_u P(x) P(u | x) (c - u) x / (w (w + u)).

    Args:
        sizes: of the sets, at least two, each at most the number of neurons that may be in it.
    """
    if not any(sizes):
        return float("nan")
    a, b, *others = sizes
    if len(others) > 1 or (others and len(regions) > 1):
        return float(random_jaccards(sizes, regions, seed).mean())
    first, second = (sum(number for sets, number in regions if sets[index]) for index in (0, 1))
    both = sum(number for sets, number in regions if sets[0] and sets[1])
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(first, second) + 1)))])
    eligible = _hypergeometric(first, both, a, log_factorial)
    overlap = np.zeros(b + 1)
    for h in np.flatnonzero(eligible > _NEGLIGIBLE).tolist():
        overlap += eligible[h] * _hypergeometric(second, h, b, log_factorial)
    # Sets that do not meet add nothing, so no division by an empty union.
    x = np.flatnonzero((overlap > _NEGLIGIBLE) & (np.arange(b + 1) > 0))
    if not others:
        return float((overlap[x] * x / (a + b - x)).sum())
    new = np.arange(others[0] + 1)
    total = 0.0
    for common in x.tolist():
        union = a + b - common
        chance = _hypergeometric(both, both - union, others[0], log_factorial)
        total += overlap[common] * (chance * (others[0] - new) * common / (union * (union + new))).sum()
    return float(total)


@lru_cache(maxsize=1)
def random_jaccards(sizes: tuple[int, ...], regions: Regions, seed: int = 0) -> np.ndarray:
    """|intersection| / |union| of `DRAWS` random sets, not all of them empty, (draws,); arguments as above."""
    counts = np.array([number for _, number in regions])
    rng = generator(seed, "random-jaccards", *sizes, *regions)
    common = union = np.zeros((DRAWS, len(counts)), dtype=np.int64)  # in each region
    for index, size in enumerate(sizes):
        may = np.array([sets[index] for sets, _ in regions])
        members = rng.multivariate_hypergeometric(np.where(may, counts, 0), size, DRAWS)
        again = rng.hypergeometric(union, counts - union, members)
        common = rng.hypergeometric(common, union - common, again) if index else members
        union = union + members - again
    return np.asarray(common.sum(1) / union.sum(1))
