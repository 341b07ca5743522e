"""Random smooth maps over a grid, and how smooth a map is."""

from collections.abc import Iterator

import numpy as np
from scipy.fft import irfft2, rfft2
from scipy.special import ndtri

from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ties import Ranks

LAGS = (1, 2, 4, 8, 16, 32)
SHORTEST = 0.3
"""Shortest correlation length of a random map, in operands; the longest is the grid's side."""
_PADDING = 2
"""The torus that a random map is cut from, in sides of the grid: opposite edges of the map are unrelated."""


def gaussian_field(shape: tuple[int, int], length: float, white: float, rng: np.random.Generator) -> np.ndarray:
    """A Gaussian random map of mean 0 and variance 1, the same in every direction, (A, B) float32.

    Args:
        length: the covariance at distance r is exp(-r² / (2 length²)), in operands.
        white: share of the variance that is white noise.
    """
    size = [_PADDING * side for side in shape]
    waves = (2 * np.pi * length) ** 2 * (np.fft.fftfreq(size[0])[:, None] ** 2 + np.fft.rfftfreq(size[1]) ** 2)
    amplitude = np.exp(-waves / 4).astype(np.float32)
    noise = rng.standard_normal(size, dtype=np.float32)
    field = irfft2(rfft2(noise) * amplitude, s=size)[: shape[0], : shape[1]]
    field = (field - field.mean()) / max(float(field.std()), 1e-12)
    return np.sqrt(1 - white) * field + np.sqrt(white) * rng.standard_normal(shape, dtype=np.float32)


def _shape(grid: Grid) -> tuple[int, int]:
    return int(np.ptp(grid.a)) + 1, int(np.ptp(grid.b)) + 1


def random_maps(grid: Grid, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Random maps on a grid's pairs, (N,) each, of every correlation length from white noise to the grid's side.

    A tenth is white noise, and some of the others contain white noise.
    """
    shape = _shape(grid)
    first, second = grid.a - grid.a.min(), grid.b - grid.b.min()
    for _ in range(count):
        length = float(np.exp(rng.uniform(np.log(SHORTEST), np.log(max(shape)))))
        white, mixed = rng.random(2) < (0.1, 0.2)
        noise = 1.0 if white else rng.random() if mixed else 0.0
        yield gaussian_field(shape, length, noise, rng)[first, second]


def autocorrelation(ranks: Ranks, grid: Grid) -> np.ndarray:
    """Autocorrelation of each neuron's normal scores at short lags, the mean of both operands', (neurons, lags).

    It follows from the order of the activations alone. A constant map has 0, and so has a lag without pairs.
    """
    total, neurons = ranks.above.shape
    values = ndtri((total - ranks.above - ranks.tied / 2) / total)
    values -= values.mean(0)
    spread = np.sqrt((values**2).mean(0))
    values = np.divide(values, spread, out=np.zeros_like(values), where=spread > 1e-9)
    laid = np.zeros((*_shape(grid), neurons), dtype=np.float32)
    here = np.zeros(_shape(grid), dtype=bool)
    first, second = grid.a - grid.a.min(), grid.b - grid.b.min()
    laid[first, second], here[first, second] = values, True
    found = np.zeros((neurons, len(LAGS)))
    for column, lag in enumerate(LAGS):
        own = []
        for maps, present in ((laid, here), (laid.swapaxes(0, 1), here.T)):
            pairs = int((present[lag:] & present[:-lag]).sum())
            if pairs and 2 * lag < len(present):
                own.append(np.einsum("abn,abn->n", maps[lag:], maps[:-lag]) / pairs)
        if own:
            found[:, column] = np.mean(own, axis=0)
    return found
