"""Jaccard indices of sets of the best neurons, for every comparison of this stage and of the later ones.

A set is given by the ranks of all neurons of a layer, from 0: its members have ranks below k. Intersections and
unions are summed over the layers before they are divided.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from form_invariance.experiment.membership import Effects, Key
from form_invariance.randomness import generator

SPLITS = 20
"""Random splits of the train prompts into halves, or into as many parts as there are formats."""

RanksOf = Callable[[int], Sequence[np.ndarray]]
"""From a layer to the ranks that define each of several sets, (R, width) each."""

_AT_ONCE = 50
"""Resamples whose sets are in memory at once."""


def set_sizes(sets: Sequence[np.ndarray]) -> np.ndarray:
    """Sizes of intersection and union, (2, ...), of sets given as masks (..., width)."""
    return np.stack([np.logical_and.reduce(sets).sum(-1), np.logical_or.reduce(sets).sum(-1)])


def jaccard(counts: np.ndarray) -> np.ndarray:
    """Intersection over union, from (2, ...); NaN where all sets are empty."""
    with np.errstate(invalid="ignore"):
        return np.asarray(counts[0] / counts[1])


def pooled_jaccards(ranks_of: RanksOf, layers: Iterable[int], ks: Sequence[int]) -> np.ndarray:
    """Jaccard of several sets, pooled over the layers, (R, ks)."""
    counts = []
    for layer in layers:
        ranks = ranks_of(layer)
        counts.append(np.stack([set_sizes([rank < k for rank in ranks]) for k in ks], axis=-1))  # (2, R, ks)
    return jaccard(np.sum(counts, axis=0))


def halves(prompts: int, rng: np.random.Generator, resamples: int | None = None) -> np.ndarray:
    """Weights of the prompts in two random halves without a common prompt, (R, 2, P).

    Args:
        resamples: number of splits, with the prompts of each half resampled. None: `SPLITS` splits, and each
            prompt counts once.
    """
    half = prompts // 2
    weights = np.zeros((SPLITS if resamples is None else resamples, 2, prompts))
    for both in weights:
        for row, part in zip(both, rng.permutation(prompts)[: 2 * half].reshape(2, half), strict=True):
            drawn = part if resamples is None else part[rng.integers(half, size=half)]
            np.add.at(row, drawn, 1 / max(half, 1))
    return weights


def parts(prompts: int, number: int, seed: int, name: str) -> np.ndarray:
    """Weights of the prompts in random parts without a common prompt, (R, number, P)."""
    weights = np.zeros((SPLITS, number, prompts))
    for repeat, rows in enumerate(weights):
        order = generator(seed, "parts", name, repeat).permutation(prompts)
        for row, part in zip(rows, np.array_split(order, number), strict=True):
            row[part] = 1 / len(part)
    return weights


def between_shuffled_halves(effects: Effects, weights: np.ndarray, ks: Sequence[int]) -> np.ndarray:
    """Jaccard of a cell's top k by two halves if the effects of each half were shuffled over a layer's candidates.

    Two sets of a and b neurons among the same n candidates then have ab/n neurons in common, in expectation.

    Args:
        weights: of the cell's prompts, (R, 2, P), from `halves`.

    Returns:
        Expected common neurons over the expected union, both summed over the layers, (ks, R).
    """
    counts = []
    for layer, candidates in effects.candidates.items():
        ranks = effects.ranks(layer, partial(np.matmul, weights))  # (R, 2, width)
        sizes = np.stack([(ranks < k).sum(-1) for k in ks])  # (ks, R, 2)
        common = sizes.prod(-1) / len(candidates)
        counts.append([common, sizes.sum(-1) - common])
    return jaccard(np.sum(counts, axis=0))


def between_halves(
    cells: Mapping[Key, Effects], weights: Mapping[Key, np.ndarray], ks: Sequence[int]
) -> np.ndarray:
    """Jaccard of each cell's top k by the first half of its prompts with each cell's top k by the second half.

    Args:
        weights: of each cell's prompts, (R, 2, P), from `halves`.

    Returns:
        Pooled over the layers, (ks, R, cells, cells).
    """
    repeats, number = len(next(iter(weights.values()))), len(cells)
    counts = np.zeros((2, len(ks), repeats, number, number))
    for start in range(0, repeats, _AT_ONCE):
        batch = slice(start, start + _AT_ONCE)
        for layer in next(iter(cells.values())).candidates:
            ranks = np.stack(
                [cell.ranks(layer, partial(np.matmul, weights[name][batch])) for name, cell in cells.items()]
            )  # (cells, R, 2, width)
            for index, k in enumerate(ks):
                tops = (ranks < k).astype(np.float32)
                first, second = tops[:, :, 0].swapaxes(0, 1), tops[:, :, 1].swapaxes(0, 1)  # (R, cells, width)
                common = first @ second.swapaxes(1, 2)
                counts[0, index, batch] += common
                counts[1, index, batch] += first.sum(-1)[:, :, None] + second.sum(-1)[:, None, :] - common
    return jaccard(counts)
