"""Products of effects, summed over neurons: all that variance components and correlations need, layer by layer.

Effects are centred over the neurons of a layer first, because what all neurons share does not rank them. The
expected product of two prompts without a common answer contains no noise, so what is not noise is a mean of such
products. Partners count, too: they are drawn from the same prompts, so two prompts may share one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from form_invariance.errors import UserError
from form_invariance.stages.groups import every_two
from form_invariance.stages.membership import Effects
from form_invariance.stages.paraphrases.compute import Wording
from form_invariance.statistics import bootstrap_weights

Cell = tuple[str, str]
"""Format and operator."""

_Key = TypeVar("_Key")
Pairs = dict[tuple[Cell, Cell], np.ndarray]


@dataclass(frozen=True)
class Measured:
    """What was measured in a cell.

    Attributes:
        effects: exact effects.
        answers: of the prompts, then of their partners in every draw, (1 + S, P).
        variants: the paraphrases that are ranked, where there are some.
    """

    effects: Effects
    answers: np.ndarray
    variants: Sequence[Wording] = ()

    def shared_prompts(self) -> list[np.ndarray]:
        """Which prompts every two wordings have in common, (P,), in the order of `Products.wordings`."""
        every = [np.ones(self.effects.prompts, bool), *(variant.right for variant in self.variants)]
        return [one & two for one, two in every_two(every)]


@dataclass(frozen=True)
class Products:
    """Sums over the neurons of one layer, or of several.

    Attributes:
        neurons: neurons that are candidates in every cell and wording.
        degrees: degrees of freedom: neurons less one, of each layer.
        means: of every two cells, and each with itself, products of prompts, mean over draws, (P, P).
        draws: of every cell with several draws, covariance of prompts over the draws, (P, P).
        ranks: of every two cells, and of each with itself, products of the ranks of the mean effects.
        wordings: of every cell, products of prompts in the difference of every two wordings, (pairs, P, P).
    """

    neurons: int
    degrees: int
    means: Pairs
    draws: dict[Cell, np.ndarray] = field(default_factory=dict)
    ranks: Pairs = field(default_factory=dict)
    wordings: dict[Cell, np.ndarray] = field(default_factory=dict)


def pooled(layers: Sequence[Products]) -> Products:
    """The products over several layers."""
    sums = [_total([vars(layer)[name] for layer in layers]) for name in ("means", "draws", "ranks", "wordings")]
    return Products(sum(layer.neurons for layer in layers), sum(layer.degrees for layer in layers), *sums)


def _total(layers: Sequence[Mapping[_Key, np.ndarray]]) -> dict[_Key, np.ndarray]:
    """Sums of the arrays that several layers have by the same keys."""
    return {key: np.asarray(np.sum([arrays[key] for arrays in layers], axis=0)) for key in layers[0]}


def weights_of(cells: Mapping[Cell, Measured], resamples: int, seed: int) -> dict[Cell, np.ndarray]:
    """How often each prompt counts: once in the first row, then in every bootstrap resample, (1 + R, P)."""
    weights = {}
    for cell, measured in cells.items():
        prompts = measured.effects.prompts
        drawn = bootstrap_weights(prompts, resamples, seed, "disagreement", *cell)
        weights[cell] = np.vstack([np.ones(prompts), drawn])
    return weights


def answers_of(train: pd.DataFrame, draws: Sequence[pd.DataFrame], effects: Effects, name: str) -> np.ndarray:
    """Answers of a cell's train prompts and of their partners in every draw, (1 + S, P).

    Raises:
        UserError: the tables have other numbers of prompts or draws than the effects.
    """
    if (len(train), len(draws)) != (effects.prompts, effects.draws):
        raise UserError(
            f"--datasets, --corrupt-tables: {name} has {len(train)} train prompts and {len(draws)} draws of "
            f"partners, but its effects have {effects.prompts} and {effects.draws}; give the tables that they "
            "were made from"
        )
    # A digit is the answer where one is asked.
    digits = (train["digit"] >= 0).all()
    return np.stack(
        [(table["target"].astype(int) if digits else table["answer"]).to_numpy() for table in (train, *draws)]
    )


def apart(one: Measured, two: Measured) -> np.ndarray:
    """Which prompts of two cells have no answer in common, neither their own nor a partner's, bool (P, Q)."""
    same = one.answers[:, None, :, None] == two.answers[None, :, None, :]
    return np.asarray(~same.any((0, 1)))


def mean_where(products: np.ndarray, chosen: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Mean of chosen products (P, Q) by the weights of the prompts, (R, P) and (R, Q); NaN without any, (R,)."""
    count = ((one @ chosen) * two).sum(-1)
    return np.asarray(((one @ (products * chosen)) * two).sum(-1) / np.where(count > 0, count, np.nan))


def square_of_mean(products: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean effect's product with itself, (R,), from (P, P).

    A resample contains a prompt several times. The products of its copies count as products of one prompt, or the
    resampled means would contain the noise twice.
    """
    prompts, every = len(products), weights.sum(-1)
    itself = weights @ np.diagonal(products) / every
    if prompts == 1:
        return np.asarray(itself)
    other = mean_where(products, ~np.eye(prompts, dtype=bool), weights, weights)
    return np.asarray((itself + (prompts - 1) * other) / prompts)


def common_neurons(several: Sequence[Effects], layer: int) -> np.ndarray:
    """The neurons of a layer that are candidates in all, sorted."""
    return reduce(np.intersect1d, [effects.candidates[layer] for effects in several])


def _centred(effects: Effects, layer: int, neurons: np.ndarray) -> np.ndarray:
    """Effects of some neurons of a layer less their mean over these neurons, (S, P, N)."""
    order = np.argsort(effects.candidates[layer])
    places = order[np.searchsorted(effects.candidates[layer], neurons, sorter=order)]
    chosen = effects.effects[layer][:, :, places].astype(np.float64)
    return np.asarray(chosen - chosen.sum(-1, keepdims=True) / max(len(neurons), 1))


def products_across(cells: Mapping[Cell, Measured], layer: int, weights: Mapping[Cell, np.ndarray]) -> Products:
    """Of every two cells, of any format and operator, the products of the mean effects alone, (1 + R,)."""
    neurons = common_neurons([measured.effects for measured in cells.values()], layer)
    means = {}  # (1 + R, N)
    for cell, measured in cells.items():
        w = weights[cell] / weights[cell].sum(-1, keepdims=True)
        means[cell] = w @ _centred(measured.effects, layer, neurons).mean(0)
    products = {(one, two): (means[one] * means[two]).sum(-1) for one, two in every_two(means)}
    return Products(len(neurons), max(len(neurons) - 1, 0), products)


def layer_products(cells: Mapping[Cell, Measured], layer: int) -> Products:
    """The products of one layer, for the formats of one operator."""
    every = [e for m in cells.values() for e in (m.effects, *(v.effects for v in m.variants)) if e is not None]
    neurons = common_neurons(every, layer)
    centred = {cell: _centred(m.effects, layer, neurons) for cell, m in cells.items()}
    means = {cell: z.mean(0) for cell, z in centred.items()}  # (P, N)
    draws = {}
    for cell, z in centred.items():
        if len(z) > 1:
            rest = z - means[cell]
            draws[cell] = np.einsum("spn,sqn->pq", rest, rest, optimize=True) / (len(z) - 1)
    placed = {cell: rankdata(mean.mean(0)) - (len(neurons) + 1) / 2 for cell, mean in means.items()}
    return Products(
        len(neurons),
        max(len(neurons) - 1, 0),
        {(one, two): means[one] @ means[two].T for one in cells for two in cells},
        draws,
        {(one, two): np.array(placed[one] @ placed[two]) for one in cells for two in cells},
        {cell: _of_wordings(centred[cell][0], m.variants, layer, neurons) for cell, m in cells.items()},
    )


def _of_wordings(template: np.ndarray, variants: Sequence[Wording], layer: int, neurons: np.ndarray) -> np.ndarray:
    """Products of prompts in the difference of every two wordings, (pairs, P, P); 0 where not right in both.

    Args:
        template: the template's effects in the first draw, with which the variants were measured, (P, N).
    """
    worded = [template]
    for variant in variants:
        assert variant.effects is not None
        full = np.full_like(template, np.nan)
        full[variant.right] = _centred(variant.effects, layer, neurons)[0]
        worded.append(full)
    differences = [np.nan_to_num(one - two) for one, two in every_two(worded)]
    return np.array([difference @ difference.T for difference in differences])
