"""Correlation of two formats' effects over neurons, corrected for what prompts alone make unreliable."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from form_invariance.stages.disagreement.components import covariance, mean_of
from form_invariance.stages.disagreement.products import Cell, Measured, Products
from form_invariance.stages.disagreement.table import ALL, RELIABLE
from form_invariance.stages.groups import every_two
from form_invariance.statistics import resampled_interval


@dataclass(frozen=True)
class Correlation:
    """Of two formats: what is found for all prompts, and corrected also in every resample, (1 + R,)."""

    formats: str
    pearson: float
    spearman: float
    reliability: tuple[float, float]
    corrected: np.ndarray


def ratio(product: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """product / sqrt(one two); NaN where one of them is not positive."""
    positive = (one > 0) & (two > 0)
    return np.asarray(product / np.sqrt(np.where(positive, one * two, np.nan)))


def correlations(
    products: Products, cells: Mapping[Cell, Measured], weights: Mapping[Cell, np.ndarray]
) -> list[Correlation]:
    """Every two formats of an operator.

    Reliability is the variance of the true effects over that of the means: what split halves of the prompts give,
    stepped up to all prompts (Spearman and Brown), in the mean over all halves that have no answer in common.
    """
    signal = {cell: covariance(products, cells, weights, cell, cell) for cell in cells}
    observed = {cell: products.means[cell, cell].mean() / (products.degrees or np.nan) for cell in cells}
    reliability = {
        cell: float(sums[0] / observed[cell]) if observed[cell] > 0 else np.nan for cell, sums in signal.items()
    }
    pairs = []
    for one, two in every_two(cells):
        both = products.means[one, two].mean() / (products.degrees or np.nan)
        corrected = ratio(covariance(products, cells, weights, one, two), signal[one], signal[two])
        reliable = min(reliability[one], reliability[two]) >= RELIABLE
        pairs.append(
            Correlation(
                f"{one[0]}+{two[0]}",
                float(ratio(both, observed[one], observed[two])),
                float(ratio(products.ranks[one, two], products.ranks[one, one], products.ranks[two, two])),
                (reliability[one], reliability[two]),
                corrected if reliable else np.full_like(corrected, np.nan),
            )
        )
    return pairs


def correlation_rows(
    operator: str, layer: int, every: list[Correlation], neurons: int
) -> list[tuple[object, ...]]:
    """Rows of the format_correlation table: each pair of formats, then their mean."""
    rows: list[tuple[object, ...]] = []
    for pair in every:
        values = pair.pearson, pair.spearman, *pair.reliability, *resampled_interval(pair.corrected)
        rows.append((operator, layer, pair.formats, *values, neurons))
    pearson, spearman = (
        float(np.mean(values)) for values in zip(*((o.pearson, o.spearman) for o in every), strict=True)
    )
    reliability = float(np.mean([pair.reliability for pair in every]))
    known = [pair.corrected for pair in every if not np.isnan(pair.corrected[0])]
    corrected = resampled_interval(mean_of(known)) if known else (np.nan, np.nan, np.nan)
    rows.append((operator, layer, ALL, pearson, spearman, reliability, reliability, *corrected, neurons))
    return rows
