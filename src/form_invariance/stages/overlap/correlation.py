"""Correlation of two formats' effects over neurons, corrected for the noise of the prompts.

Effects are centred over the neurons of a layer first, because a part that all neurons share does not rank them.
The product of a neuron's effects on two prompts contains no noise in expectation if the prompts have no answer in
common, neither their own nor a partner's. So the variances and covariances of the true effects are estimated by
means of these products.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from form_invariance.errors import UserError
from form_invariance.experiment.groups import joined
from form_invariance.experiment.membership import Effects, common_layers
from form_invariance.stages.overlap.table import FORMAT_CORRELATION, RELIABLE
from form_invariance.statistics import bootstrap_weights, resampled_interval
from form_invariance.tables.columns import ALL, EVERY_LAYER
from form_invariance.tables.keys import CellKey

CorrelationRow = tuple[object, ...]


@dataclass(frozen=True)
class CellEffects:
    """A cell's exact effects, and the answers of its prompts, then of their partners in every draw, (1 + S, P)."""

    effects: Effects
    answers: np.ndarray


@dataclass(frozen=True)
class Products:
    """Sums over the neurons of one or several layers, for the formats of one operator.

    Attributes:
        neurons: number of neurons that are candidates in every cell.
        degrees: degrees of freedom: neurons - 1, summed over the layers.
        means: for every two cells, and each with itself, the products of the effects (means over draws) on every
            two prompts, (P, Q).
        ranks: for the same pairs, the product of the ranks of the mean effects.
    """

    neurons: int
    degrees: int
    means: dict[tuple[CellKey, CellKey], np.ndarray]
    ranks: dict[tuple[CellKey, CellKey], np.ndarray]


@dataclass(frozen=True)
class Correlation:
    """The correlations of two formats; `corrected` is by all prompts, then by every resample, (1 + R,)."""

    formats: str
    pearson: float
    spearman: float
    reliability: tuple[float, float]
    corrected: np.ndarray


def answers_of(train: pd.DataFrame, draws: Sequence[pd.DataFrame], effects: Effects, name: str) -> np.ndarray:
    """Answers of a cell's train prompts and of their partners in every draw, (1 + S, P).

    Raises:
        UserError: the tables have other numbers of prompts or draws than the effects.
    """
    if (len(train), len(draws)) != (effects.prompts, effects.draws):
        raise UserError(
            f"--datasets, --corrupt-tables: {name} has {len(train)} train prompts and {len(draws)} draws of "
            f"partners, but its effects have {effects.prompts} and {effects.draws}; give the tables of "
            "these effects"
        )
    # Where a digit is asked, this digit is the answer.
    digits = (train["digit"] >= 0).all()
    return np.stack(
        [(table["target"].astype(int) if digits else table["answer"]).to_numpy() for table in (train, *draws)]
    )


def format_correlation_table(cells: Mapping[CellKey, CellEffects], resamples: int, seed: int) -> pd.DataFrame:
    """Correlations of every two formats' effects, by operator and layer, and their means over operators.

    Args:
        cells: what was measured in every (format, operator) of a model.
        resamples: bootstrap resamples over the prompts of each cell.

    Returns:
        The format_correlation table; empty if there is one format.
    """
    layers = common_layers({cell: measured.effects for cell, measured in cells.items()}, [1])
    weights = {}  # (1 + R, P)
    for cell, measured in cells.items():
        prompts = measured.effects.prompts
        drawn = bootstrap_weights(prompts, resamples, seed, "disagreement", *cell)
        weights[cell] = np.vstack([np.ones(prompts), drawn])
    operators = dict.fromkeys(operator for _, operator in cells)
    of = {operator: {cell: cells[cell] for cell in cells if cell[1] == operator} for operator in operators}
    products = {operator: [_products(formats, layer) for layer in layers] for operator, formats in of.items()}
    rows: list[CorrelationRow] = []
    for index, layer in enumerate((EVERY_LAYER, *layers)):
        layer_slice = slice(index - 1, index) if index else slice(None)
        all_pairs: list[Correlation] = []
        for operator, formats in of.items():
            summed = _pooled(products[operator][layer_slice])
            pairs = _correlations(summed, formats, weights)
            rows += _rows(operator, layer, pairs, summed.neurons)
            all_pairs += pairs
        common = sum(len(_common_neurons(cells, number)) for number in layers[layer_slice])
        rows += _rows(ALL, layer, all_pairs, common)[-1:]
    return pd.DataFrame(rows, columns=list(FORMAT_CORRELATION.columns))


def _common_neurons(cells: Mapping[CellKey, CellEffects], layer: int) -> np.ndarray:
    """The neurons of a layer that are candidates in all cells, sorted."""
    return reduce(np.intersect1d, [measured.effects.candidates[layer] for measured in cells.values()])


def _products(cells: Mapping[CellKey, CellEffects], layer: int) -> Products:
    neurons = _common_neurons(cells, layer)
    means = {}  # (P, N)
    for cell, measured in cells.items():
        candidates = measured.effects.candidates[layer]
        order = np.argsort(candidates)
        places = order[np.searchsorted(candidates, neurons, sorter=order)]
        effects = measured.effects.effects[layer][:, :, places].astype(np.float64)
        means[cell] = (effects - effects.sum(-1, keepdims=True) / max(len(neurons), 1)).mean(0)
    placed = {cell: rankdata(mean.mean(0)) - (len(neurons) + 1) / 2 for cell, mean in means.items()}
    return Products(
        len(neurons),
        max(len(neurons) - 1, 0),
        {(first, second): means[first] @ means[second].T for first in cells for second in cells},
        {(first, second): np.array(placed[first] @ placed[second]) for first in cells for second in cells},
    )


def _pooled(layers: Sequence[Products]) -> Products:
    means, ranks = (
        {pair: np.asarray(np.sum([products[pair] for products in by_layer], axis=0)) for pair in by_layer[0]}
        for by_layer in ([layer.means for layer in layers], [layer.ranks for layer in layers])
    )
    return Products(sum(layer.neurons for layer in layers), sum(layer.degrees for layer in layers), means, ranks)


def _covariance(
    products: Products,
    cells: Mapping[CellKey, CellEffects],
    weights: Mapping[CellKey, np.ndarray],
    first: CellKey,
    second: CellKey,
) -> np.ndarray:
    """Covariance over neurons of two cells' true effects, or variance of one cell's, without noise, (1 + R,)."""
    same = cells[first].answers[:, None, :, None] == cells[second].answers[None, :, None, :]
    apart = ~same.any((0, 1))  # (P, Q)
    summed = mean_where(products.means[first, second], apart, weights[first], weights[second])
    return np.asarray(summed / (products.degrees or np.nan))


def mean_where(products: np.ndarray, mask: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mean (R,) of the products (P, Q) in a mask, by the prompts' weights (R, P) and (R, Q); NaN without any."""
    count = ((first @ mask) * second).sum(-1)
    return np.asarray(((first @ (products * mask)) * second).sum(-1) / np.where(count > 0, count, np.nan))


def _ratio(product: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """product / sqrt(first second); NaN where `first` or `second` is not positive."""
    positive = (first > 0) & (second > 0)
    return np.asarray(product / np.sqrt(np.where(positive, first * second, np.nan)))


def _correlations(
    products: Products, cells: Mapping[CellKey, CellEffects], weights: Mapping[CellKey, np.ndarray]
) -> list[Correlation]:
    """The correlations of every two formats of an operator.

    Reliability is the variance of the true effects divided by that of the mean effects. Split halves of the
    prompts give the same, stepped up to all prompts (Spearman and Brown), in the mean over all halves without a
    common answer.
    """
    signal = {cell: _covariance(products, cells, weights, cell, cell) for cell in cells}
    observed = {cell: products.means[cell, cell].mean() / (products.degrees or np.nan) for cell in cells}
    reliability = {
        cell: float(sums[0] / observed[cell]) if observed[cell] > 0 else np.nan for cell, sums in signal.items()
    }
    pairs, ranks = [], products.ranks
    for first, second in combinations(cells, 2):
        both = products.means[first, second].mean() / (products.degrees or np.nan)
        corrected = _ratio(_covariance(products, cells, weights, first, second), signal[first], signal[second])
        reliable = min(reliability[first], reliability[second]) >= RELIABLE
        pairs.append(
            Correlation(
                joined((first[0], second[0])),
                float(_ratio(both, observed[first], observed[second])),
                float(_ratio(ranks[first, second], ranks[first, first], ranks[second, second])),
                (reliability[first], reliability[second]),
                corrected if reliable else np.full_like(corrected, np.nan),
            )
        )
    return pairs


def _rows(operator: str, layer: int, pairs: Sequence[Correlation], neurons: int) -> list[CorrelationRow]:
    """Rows of the table: each pair of formats, then their mean."""
    rows: list[CorrelationRow] = []
    for pair in pairs:
        values = pair.pearson, pair.spearman, *pair.reliability, *resampled_interval(pair.corrected)
        rows.append((operator, layer, pair.formats, *values, neurons))
    if pairs:
        pearson = float(np.mean([pair.pearson for pair in pairs]))
        spearman = float(np.mean([pair.spearman for pair in pairs]))
        reliability = float(np.mean([pair.reliability for pair in pairs]))
        defined = [pair.corrected for pair in pairs if not np.isnan(pair.corrected[0])]
        corrected = resampled_interval(np.mean(defined, axis=0)) if defined else (np.nan, np.nan, np.nan)
        rows.append((operator, layer, ALL, pearson, spearman, reliability, reliability, *corrected, neurons))
    return rows
