"""Random smooth maps over a grid, and how smooth a map is."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import MapRanking

LAGS = (1, 2, 4, 8, 16, 32)
SHORTEST, LENGTHS = 0.3, 60
"""Correlation lengths of random maps: the shortest, in operands, and how many there are up to the grid's side."""


@lru_cache(maxsize=2 * LENGTHS)
def _root(side: int, length: float) -> np.ndarray:
    """Square root of the covariance exp(-r² / (2 length²)) along one operand, (side, side) float32."""
    distance = np.subtract.outer(np.arange(side), np.arange(side)) / length
    values, vectors = np.linalg.eigh(np.exp(-(distance**2) / 2))
    return (vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T).astype(np.float32)


def gaussian_field(
    shape: tuple[int, int], lengths: tuple[float, float], white: float, rng: np.random.Generator
) -> np.ndarray:
    """A Gaussian random map of mean 0 and variance 1, (A, B); float32, or float64 if it contains white noise.

    Args:
        lengths: correlation lengths along the first and the second operand, in operands: the covariance at the
            distance (x, y) is exp(-x² / (2 lengths[0]²) - y² / (2 lengths[1]²)).
        white: share of the variance that is white noise.
    """
    first, second = (_root(side, length) for side, length in zip(shape, lengths, strict=True))
    field = first @ rng.standard_normal(shape, dtype=np.float32) @ second
    field -= field.mean()
    field /= max(float(field.std()), 1e-12)
    if not white:
        return field
    return np.sqrt(1 - white) * field + np.sqrt(white) * rng.standard_normal(shape, dtype=np.float32)


def random_maps(grid: Grid, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Random maps on a grid's pairs, (N,) each, with correlation lengths from `SHORTEST` to the grid's side.

    A third of the maps have the same length along both operands, the others have two. A tenth of all maps are
    white noise, a fifth of the rest contain some.
    """
    shape = int(np.ptp(grid.a)) + 1, int(np.ptp(grid.b)) + 1
    position = (grid.a - grid.a.min()) * shape[1] + grid.b - grid.b.min()
    lengths = np.geomspace(SHORTEST, max(shape), LENGTHS)
    for _ in range(count):
        along, across = (float(length) for length in rng.choice(lengths, size=2))
        same, white, mixed = rng.random(3) < (1 / 3, 0.1, 0.2)
        noise = 1.0 if white else rng.random() if mixed else 0.0
        yield gaussian_field(shape, (along, along if same else across), noise, rng).take(position)


@lru_cache(maxsize=2)
def _normal_scores(total: int) -> np.ndarray:
    """Normal scores of ranks in steps of a half, (2 x total + 1,): tied pairs share the mean of their ranks."""
    return ndtri((total - np.arange(2 * total + 1) / 2) / total).astype(np.float32)


def _shifts(along: np.ndarray, across: np.ndarray) -> tuple[np.ndarray, int, list[tuple[int, int]]]:
    """Lay the pairs out in rows, so that a lag along one operand is a shift by whole rows.

    Returns:
        The position of each pair (N,), the number of positions, and for each lag its shift and how often two pairs
        are at this lag.
    """
    width, rows = int(np.ptp(across)) + 1, int(np.ptp(along)) + 1
    position = (along - along.min()) * width + across - across.min()
    here = np.bincount(position, minlength=rows * width)
    shifts = [lag * width for lag in LAGS if 2 * lag < rows]
    return position, len(here), [(shift, max(1, int(here[shift:] @ here[:-shift]))) for shift in shifts]


@lru_cache(maxsize=2)
def _sides(grid: Grid) -> list[tuple[np.ndarray, int, list[tuple[int, int]]]]:
    """`_shifts` along the first operand, and along the second one."""
    return [_shifts(*operands) for operands in ((grid.a, grid.b), (grid.b, grid.a))]


def autocorrelation(ranking: MapRanking, grid: Grid) -> np.ndarray:
    """Autocorrelation of a map's normal scores at short lags along either operand, (2 x lags,).

    It depends on the order of the activations alone. It is 0 for a constant map, and at a lag beyond the grid.
    """
    total = len(grid.a)
    result = np.zeros((2, len(LAGS)))
    if ranking.constant:
        return result.ravel()
    normal, starts = _normal_scores(total), ranking.starts
    ordered = normal[1::2] if starts is None else np.repeat(normal[starts[1:] + starts[:-1]], np.diff(starts))
    values = np.empty(total, dtype=np.float32)
    values[ranking.order] = ordered
    values -= values.mean()
    values /= np.sqrt((values**2).mean())
    for side, (position, length, shifts) in enumerate(_sides(grid)):
        laid = np.zeros(length, dtype=np.float32)
        laid[position] = values
        for column, (shift, pairs) in enumerate(shifts):
            result[side, column] = laid[shift:] @ laid[:-shift] / pairs
    return result.ravel()
