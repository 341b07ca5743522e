"""Correlation of two formats' effects over neurons, corrected for what prompts alone make unreliable."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from form_invariance.stages.disagreement.products import Cell, Products
from form_invariance.stages.disagreement.resampled import interval, mean_of
from form_invariance.stages.disagreement.table import ALL, RELIABLE
from form_invariance.stages.overlap.compute import random_halves


@dataclass(frozen=True)
class Correlation:
    """Of two formats: values for all prompts and in every resample, (1 + R,); Spearman's for all prompts."""

    formats: str
    pearson: np.ndarray
    spearman: float
    reliability: tuple[np.ndarray, np.ndarray]

    @property
    def corrected(self) -> np.ndarray:
        """pearson / sqrt(product of reliabilities), (1 + R,); all NaN where one is too low."""
        product = np.multiply(*self.reliability)
        positive = np.minimum(*self.reliability) > 0
        corrected = self.pearson / np.sqrt(np.where(positive, product, np.nan))
        reliable = min(own[0] for own in self.reliability) >= RELIABLE
        return corrected if reliable else np.full_like(corrected, np.nan)


Correlations = list[Correlation]


def _correlation(product: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    variance = one * two
    return np.asarray(product / np.sqrt(np.where(variance > 0, variance, np.nan)))


def reliability(products: np.ndarray, weights: np.ndarray, seed: int, name: str) -> np.ndarray:
    """Reliability of the mean over prompts: correlation of split halves, stepped up to all prompts.

    All prompts are n times as many as a half's, so Spearman and Brown's formula gives n r / (1 + (n - 1) r). In a
    resample all copies of a prompt are in one half; otherwise the copies would make the halves alike.

    Args:
        products: of prompts, mean over draws, summed over neurons, (P, P).
        weights: (1 + R, P).

    Returns:
        Mean over random splits, (1 + R,).
    """
    prompts = weights.shape[1]
    if prompts < 2:
        return np.full(len(weights), np.nan)
    times = prompts / (prompts // 2)
    found = []
    for halves in random_halves(prompts, seed, name):
        first, second = (weights * np.isin(np.arange(prompts), half) for half in halves)
        total_first, total_second = first @ products, second @ products
        r = _correlation(
            (total_first * second).sum(-1), (total_first * first).sum(-1), (total_second * second).sum(-1)
        )
        found.append(times * r / (1 + (times - 1) * r))
    return np.mean(found, axis=0)


def correlations(
    products: Products, weights: Mapping[Cell, np.ndarray], draws: Mapping[Cell, int], seed: int
) -> Correlations:
    """Every two formats of an operator."""
    own, reliable = {}, {}
    for cell, same in products.same.items():
        # Effects averaged over draws: S products of one draw, S (S - 1) of two.
        of_mean = (same + (draws[cell] - 1) * products.other.get(cell, np.zeros(()))) / draws[cell]
        w = weights[cell] / weights[cell].sum(-1, keepdims=True)
        own[cell] = ((w @ of_mean) * w).sum(-1)
        reliable[cell] = reliability(of_mean, weights[cell], seed, "/".join(("disagreement", *cell)))
    return [
        Correlation(
            f"{one[0]}+{two[0]}",
            _correlation(products.across[one, two], own[one], own[two]),
            float(_correlation(products.ranks[one, two], products.ranks[one, one], products.ranks[two, two])),
            (reliable[one], reliable[two]),
        )
        for one, two in combinations(products.same, 2)
    ]


def correlation_rows(operator: str, layer: int, every: Correlations, neurons: int) -> list[tuple[object, ...]]:
    """Rows of the format_correlation table: each pair of formats, then their mean."""
    rows: list[tuple[object, ...]] = []
    for one in every:
        first, second = (float(own[0]) for own in one.reliability)
        values = float(one.pearson[0]), one.spearman, first, second
        rows.append((operator, layer, one.formats, *values, *interval(one.corrected), neurons))
    mean = float(np.mean([[own[0] for own in one.reliability] for one in every]))
    values = (
        float(np.mean([one.pearson[0] for one in every])),
        float(np.mean([one.spearman for one in every])),
        mean,
        mean,
    )
    known = [one.corrected for one in every if not np.isnan(one.corrected[0])]
    corrected = interval(mean_of(known)) if known else (np.nan, np.nan, np.nan)
    rows.append((operator, layer, ALL, *values, *corrected, neurons))
    return rows
