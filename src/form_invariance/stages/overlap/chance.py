"""The Jaccard index of random sets, drawn from all neurons of a layer or from each format's candidates.

Only candidates can be among the best, and formats have many candidates in common. So random candidates overlap
more than random neurons. The overlap grows with the share of the candidates that is drawn.
"""

from functools import lru_cache

import numpy as np

from form_invariance.randomness import generator

DRAWS = 2000
"""Draws of random sets where the mean is not exact: its standard error is 1/45 of the spread."""

Regions = tuple[tuple[tuple[bool, ...], int], ...]
"""Disjoint groups of neurons: in which of the sets the neurons of a group may be, and how many neurons it has."""

_NEGLIGIBLE = 1e-14


def one_region(sets: int, width: int) -> Regions:
    """A single region: each of `width` neurons may be in all sets."""
    return (((True,) * sets, width),)


def regions_of(candidates: np.ndarray) -> Regions:
    """The regions of candidates, from masks (sets, width)."""
    may, counts = np.unique(candidates.T, axis=0, return_counts=True)
    return tuple((tuple(sets), n) for sets, n in zip(may.tolist(), counts.tolist(), strict=True) if any(sets))


def _hypergeometric(population: int, marked: int, drawn: int, log_factorial: np.ndarray) -> np.ndarray:
    """Probability of 0..drawn marked items among `drawn` items of a population, (drawn + 1,).

    `scipy.stats.hypergeom` is accurate to 1e-12 only: the last digits would differ.
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
    """Expected |intersection| / |union| of random sets; NaN if all sets are empty.

    Exact for two sets, and for three sets with the same candidates; otherwise the mean of `random_jaccards`.

    The sets have a, b and c members. Of the first set, h ~ Hypergeometric(candidates of the first set, of both, a)
    members are candidates of the second set. Of the second set, x ~ Hypergeometric(its candidates, h, b) members
    are among these h, so the union has w = a + b - x neurons. A third set adds u ~ Hypergeometric(candidates,
    candidates - w, c) neurons to the union. Of its other c - u members, (c - u) x / w are expected to be in the
    intersection of the first two sets. So E = Σ_x Σ_u P(x) P(u | x) (c - u) x / (w (w + u)).

    Args:
        sizes: sizes of at least two sets, each at most the number of neurons that may be in the set.
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
    # Disjoint sets add nothing; skipping them avoids a division by an empty union.
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
    """|intersection| / |union| in `DRAWS` draws of random sets that are not all empty, (draws,)."""
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
