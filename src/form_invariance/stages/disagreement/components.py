"""Variance components of the neurons' effects (method, section 14).

A neuron's mean effect over prompts and draws, less the mean of all neurons of its layer, is modelled as the sum of
neuron, neuron x format, neuron x wording, and noise. The noise has two parts: how the prompts were paired with
partners (draw), and which prompts were drawn, as prompts and as partners (prompt).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from form_invariance.stages.disagreement.products import (
    Cell,
    Measured,
    Pairs,
    Products,
    apart,
    mean_where,
    square_of_mean,
)
from form_invariance.stages.groups import every_two
from form_invariance.statistics import resampled_share

Parts = dict[str, np.ndarray]
"""Components by name, (1 + R,): for all prompts, and in every resample of them."""


def mean_of(values: Sequence[np.ndarray]) -> np.ndarray:
    """Mean of arrays of equal shape."""
    return np.asarray(np.mean(values, axis=0))


def covariance(
    products: Products, cells: Mapping[Cell, Measured], weights: Mapping[Cell, np.ndarray], one: Cell, two: Cell
) -> np.ndarray:
    """Covariance over neurons of two cells' true effects, or variance of one cell's, without noise, (1 + R,)."""
    chosen = apart(cells[one], cells[two])
    summed = mean_where(products.means[one, two], chosen, weights[one], weights[two])
    return np.asarray(summed / (products.degrees or np.nan))


def operator_components(
    products: Products, cells: Mapping[Cell, Measured], weights: Mapping[Cell, np.ndarray]
) -> tuple[Parts, Parts]:
    """Variance components of one operator, and what each adds to the total.

    Args:
        cells: the operator's formats.
        weights: of their prompts, (1 + R, P).

    Returns:
        The components, and of those that make two formats differ their part in half the variance of the
        difference of two formats' mean effects: draw and prompt are divided by their number.
    """
    degrees, twos = products.degrees or np.nan, every_two(cells)
    signal = {cell: covariance(products, cells, weights, cell, cell) for cell in cells}
    scale = {cell: np.sqrt(np.maximum(value, 0)) for cell, value in signal.items()}
    neuron = mean_of([covariance(products, cells, weights, *two) for two in twos])
    template = mean_of(list(signal.values())) - neuron
    observed = mean_of([square_of_mean(products.means[cell, cell], weights[cell]) for cell in cells])
    in_common = mean_of([_of_means(products, weights, *two) for two in twos])
    total = (observed - in_common) / degrees
    unknown = np.full(len(total), np.nan)
    draw, draw_part = unknown, unknown
    if set(products.draws) == set(cells):
        by_cell = {cell: square_of_mean(drawn, weights[cell]) / degrees for cell, drawn in products.draws.items()}
        draw = mean_of(list(by_cell.values()))
        draw_part = mean_of([drawn / cells[cell].effects.draws for cell, drawn in by_cell.items()])
    prompt_part = total - template - np.nan_to_num(draw_part)
    wording = mean_of([*_wordings(products, cells, weights)] or [unknown]) / degrees
    parts = {
        "template": template,
        "scale": mean_of([(scale[one] - scale[two]) ** 2 / 2 for one, two in twos]),
        "format": template - wording,
        "wording": wording,
        "draw": draw_part,
        "prompt": prompt_part,
        "total": total,
    }
    prompts = min(measured.effects.prompts for measured in cells.values())
    return {**parts, "neuron": neuron, "draw": draw, "prompt": prompt_part * prompts}, parts


def _of_means(products: Products, weights: Mapping[Cell, np.ndarray], one: Cell, two: Cell) -> np.ndarray:
    """The product of two cells' mean effects, noise included, (1 + R,)."""
    means = products.means[one, two]
    return mean_where(means, np.ones(means.shape, dtype=bool), weights[one], weights[two])


def _wordings(
    products: Products, cells: Mapping[Cell, Measured], weights: Mapping[Cell, np.ndarray]
) -> list[np.ndarray]:
    """Half the variance of the true difference of every two wordings of a cell, (1 + R,) each."""
    components = []
    for cell, measured in cells.items():
        for product, both in zip(products.wordings[cell], measured.shared_prompts(), strict=True):
            weight = weights[cell] * both
            components.append(mean_where(product, apart(measured, measured), weight, weight) / 2)
    return components


def across_operators(across: Pairs, degrees: int, neuron: np.ndarray, template: np.ndarray) -> Parts:
    """Variance over neurons of effects shared by all cells, by those of one operator, by those of one format.

    Args:
        across: products of the mean effects of every two cells.
        neuron: what the formats of one operator share, mean over operators, (1 + R,).
        template: what they do not share, likewise.

    Returns:
        Also two ratios: what an operator's formats share of all that belongs to it, and what all cells share.
    """

    def shared_by(one_format: bool) -> np.ndarray:
        other_operator = [(one, two) for one, two in across if one[1] != two[1]]
        chosen = [across[one, two] for one, two in other_operator if (one[0] == two[0]) == one_format]
        return mean_of(chosen or [np.full_like(neuron, np.nan)]) / (degrees or np.nan)

    everywhere = shared_by(one_format=False)
    operator, common = neuron - everywhere, shared_by(one_format=True) - everywhere
    return {
        "neuron": everywhere,
        "operator": operator,
        "template_common": common,
        "invariance": resampled_share(operator, neuron + template - everywhere - common),
        "generic": resampled_share(everywhere, neuron + template),
    }
