"""Products of effects, summed over neurons: all that variance components and correlations need, layer by layer.

Effects are centred over the neurons of a layer first, because what all neurons share does not rank them. The
expected product of two different prompts (or draws) contains no variance of prompts (or draws). So every estimate
is a mean of products. Copies of a prompt in a bootstrap resample are one prompt, not two different ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import TypeVar

import numpy as np
from scipy.stats import rankdata

from form_invariance.stages.patching.effects import Effects
from form_invariance.statistics import bootstrap_weights

Cell = tuple[str, ...]
"""Format and operator."""

_Key = TypeVar("_Key")
Pairs = dict[tuple[Cell, Cell], np.ndarray]


@dataclass(frozen=True)
class Variant:
    """Effects in a paraphrase of a cell's prompts: which prompts it has, bool (P,), and their effects."""

    right: np.ndarray
    effects: Effects


@dataclass(frozen=True)
class Products:
    """Sums over the neurons of one layer, or of several.

    Attributes:
        neurons: neurons that are candidates in every cell and wording.
        degrees: degrees of freedom: neurons less one, of each layer.
        same: of every cell, products of prompts in one draw, mean over draws, (P, P).
        other: products of prompts in two different draws, (P, P); no entry where there is one draw.
        across: of every two cells, products of their mean effects, for all prompts and each resample, (1 + R,).
        ranks: of every two cells, and of each with itself, products of the ranks of the mean effects.
        wordings: of every cell, products of prompts in the difference of two wordings, (P, P), for every two.
    """

    neurons: int
    degrees: int
    same: dict[Cell, np.ndarray]
    other: dict[Cell, np.ndarray]
    across: Pairs
    ranks: Pairs
    wordings: dict[Cell, list[np.ndarray]]


def pooled(layers: Sequence[Products]) -> Products:
    """The products over several layers."""
    first = layers[0]
    return Products(
        sum(one.neurons for one in layers),
        sum(one.degrees for one in layers),
        total([one.same for one in layers]),
        total([one.other for one in layers]),
        total([one.across for one in layers]),
        total([one.ranks for one in layers]),
        {
            cell: [sum_of(some) for some in zip(*(one.wordings[cell] for one in layers), strict=True)]
            for cell in first.same
        },
    )


def sum_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Sum of arrays of one shape."""
    return np.asarray(np.sum(arrays, axis=0))


def total(layers: Sequence[Mapping[_Key, np.ndarray]]) -> dict[_Key, np.ndarray]:
    """Sums of the arrays that several layers have by the same keys."""
    return {key: sum_of([one[key] for one in layers]) for key in layers[0]}


def weights_of(cells: Mapping[Cell, Effects], resamples: int, seed: int) -> dict[Cell, np.ndarray]:
    """How often each prompt counts: once in the first row, then in every bootstrap resample, (1 + R, P)."""
    return {
        cell: np.vstack([np.ones(e.prompts), bootstrap_weights(e.prompts, resamples, seed, "disagreement", *cell)])
        for cell, e in cells.items()
    }


def other_prompts(products: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean product of two different prompts, (R,), from (P, P) and weights (R, P); NaN if there is one prompt."""
    products_of_two = ((weights @ products) * weights).sum(-1) - weights**2 @ np.diagonal(products)
    return _ratio(products_of_two, weights.sum(-1) ** 2 - (weights**2).sum(-1))


def same_prompt(products: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean product of a prompt with itself, (R,)."""
    return _ratio(weights @ np.diagonal(products), weights.sum(-1))


def _ratio(summed: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.asarray(summed / np.where(count > 0, count, np.nan))


def common_neurons(several: Sequence[Effects], layer: int) -> np.ndarray:
    """The neurons of a layer that are candidates in all, sorted."""
    return reduce(np.intersect1d, [one.candidates[layer] for one in several])


def _centred(effects: Effects, layer: int, neurons: np.ndarray) -> np.ndarray:
    """Effects of some neurons of a layer less their mean over these neurons, (S, P, N)."""
    order = np.argsort(effects.candidates[layer])
    places = order[np.searchsorted(effects.candidates[layer], neurons, sorter=order)]
    chosen = effects.effects[layer][:, :, places].astype(np.float64)
    return np.asarray(chosen - chosen.sum(-1, keepdims=True) / max(len(neurons), 1))


def across_cells(centred: Mapping[Cell, np.ndarray], weights: Mapping[Cell, np.ndarray]) -> Pairs:
    """Products of the mean effects of every two cells, (1 + R,), from effects (S, P, N) of each."""
    means = {
        cell: weights[cell] @ z.mean(0) / weights[cell].sum(-1, keepdims=True) for cell, z in centred.items()
    }  # (1 + R, N)
    return {(one, two): (means[one] * means[two]).sum(-1) for one, two in combinations(means, 2)}


@dataclass(frozen=True)
class Across:
    """`Products.across` of all cells of a model, on the neurons that all these cells have."""

    across: Pairs
    neurons: int
    degrees: int


def products_across(cells: Mapping[Cell, Effects], layer: int, weights: Mapping[Cell, np.ndarray]) -> Across:
    """The products of the mean effects of every two cells, of any format and operator."""
    neurons = common_neurons(list(cells.values()), layer)
    centred = {cell: _centred(effects, layer, neurons) for cell, effects in cells.items()}
    return Across(across_cells(centred, weights), len(neurons), max(len(neurons) - 1, 0))


def layer_products(
    cells: Mapping[Cell, Effects],
    variants: Mapping[Cell, Sequence[Variant]],
    layer: int,
    weights: Mapping[Cell, np.ndarray],
) -> Products:
    """The products of one layer, for the formats of one operator.

    Args:
        cells: effects of every format.
        variants: the cells' paraphrases, where there are some.
        weights: of each cell, (1 + R, P).
    """
    every = [*cells.values(), *(one.effects for own in variants.values() for one in own)]
    neurons = common_neurons(every, layer)
    centred = {cell: _centred(effects, layer, neurons) for cell, effects in cells.items()}
    same, other = {}, {}
    for cell, z in centred.items():
        draws = len(z)
        own = np.einsum("spn,sqn->pq", z, z, optimize=True)
        same[cell] = own / draws
        if draws > 1:
            over_draws = z.sum(0)
            other[cell] = (over_draws @ over_draws.T - own) / (draws * (draws - 1))
    placed = {cell: rankdata(z.mean((0, 1))) - (len(neurons) + 1) / 2 for cell, z in centred.items()}
    return Products(
        len(neurons),
        max(len(neurons) - 1, 0),
        same,
        other,
        across_cells(centred, weights),
        {(one, two): np.array(placed[one] @ placed[two]) for one in cells for two in cells},
        {cell: list(_of_wordings(centred[cell][0], variants.get(cell, ()), layer, neurons)) for cell in cells},
    )


def _of_wordings(
    template: np.ndarray, variants: Sequence[Variant], layer: int, neurons: np.ndarray
) -> Iterator[np.ndarray]:
    """Products of prompts in the difference of two wordings, (P, P); 0 where a prompt is not right in both.

    Args:
        template: the template's effects in the first draw, with which the variants were measured, (P, N).
    """
    worded = [template]
    for variant in variants:
        full = np.full_like(template, np.nan)
        full[variant.right] = _centred(variant.effects, layer, neurons)[0]
        worded.append(full)
    for one, two in combinations(worded, 2):
        difference = np.nan_to_num(one - two)
        yield difference @ difference.T


def prompts_in_both(prompts: int, variants: Sequence[Variant]) -> list[np.ndarray]:
    """Which prompts every two wordings share, (P,), in the order of `Products.wordings`."""
    return [one & two for one, two in combinations([np.ones(prompts, bool), *(v.right for v in variants)], 2)]
