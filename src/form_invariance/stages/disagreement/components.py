"""Variance components of the neurons' effects, from products of effects (method of moments; method, section 13).

A neuron's effect, less the mean of all neurons of its layer, is modelled as a sum of independent terms: neuron,
neuron x format, neuron x wording, neuron x draw, neuron x prompt, and the rest, which is due to the partner of the
prompt. Wordings, draws and prompts are nested in formats. Draws and prompts are crossed.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from form_invariance.stages.disagreement.products import Cell, Pairs, Products, other_prompts, same_prompt
from form_invariance.stages.disagreement.resampled import mean_of

Parts = dict[str, np.ndarray]
"""Components by name, (1 + R,): for all prompts, and in every resample of them."""


def cell_components(products: Products, cell: Cell, weights: np.ndarray) -> Parts:
    """Variance components of one cell, by the means of products of prompts and draws, same and other.

    E[product] is the signal's variance, plus that of the draw where the draw is the same, of the prompt where the
    prompt is the same, of the partner where both are. In a balanced design these estimates are those of ANOVA.

    Args:
        weights: of the prompts, (1 + R, P).

    Returns:
        signal, draw, prompt, partner. With one draw, draw and partner are NaN: signal and prompt contain them.
    """
    same, degrees = products.same[cell], products.degrees or np.nan
    one_draw, one_prompt_and_draw = other_prompts(same, weights), same_prompt(same, weights)
    if cell not in products.other:
        unknown = np.full(len(weights), np.nan)
        found = {"signal": one_draw, "draw": unknown, "prompt": one_prompt_and_draw - one_draw, "partner": unknown}
    else:
        signal = other_prompts(products.other[cell], weights)
        one_prompt = same_prompt(products.other[cell], weights)
        found = {
            "signal": signal,
            "draw": one_draw - signal,
            "prompt": one_prompt - signal,
            "partner": one_prompt_and_draw - one_draw - one_prompt + signal,
        }
    return {name: value / degrees for name, value in found.items()}


def operator_components(
    products: Products,
    weights: Mapping[Cell, np.ndarray],
    draws: Mapping[Cell, int],
    shared: Mapping[Cell, Sequence[np.ndarray]],
) -> tuple[Parts, Parts]:
    """Variance components of one operator, and what each adds to the total.

    Args:
        draws: of each cell.
        shared: the prompts that every two wordings of a cell have in common, (P,) each.

    Returns:
        The components, and of those that make two formats differ their part in half the variance of the
        difference of two formats' mean effects: draws and prompts are divided by their number.
    """
    cells, degrees = list(products.same), products.degrees or np.nan
    found = {cell: cell_components(products, cell, weights[cell]) for cell in cells}
    neuron = mean_of([products.across[pair] / degrees for pair in combinations(cells, 2)])
    signal = {cell: np.sqrt(np.maximum(found[cell]["signal"], 0)) for cell in cells}
    wording = mean_of(
        [
            other_prompts(product, weights[cell] * both) / degrees / 2
            for cell in cells
            for product, both in zip(products.wordings[cell], shared[cell], strict=True)
        ]
    )
    template = mean_of([found[cell]["signal"] for cell in cells]) - neuron
    values = {
        "neuron": neuron,
        "template": template,
        "scale": mean_of([(signal[one] - signal[two]) ** 2 / 2 for one, two in combinations(cells, 2)]),
        "format": template - wording,
        "wording": wording,
        **{name: mean_of([found[cell][name] for cell in cells]) for name in ("draw", "prompt", "partner")},
    }
    prompts = {cell: weights[cell].shape[1] for cell in cells}
    numbers = {
        "draw": draws,
        "prompt": prompts,
        "partner": {cell: draws[cell] * prompts[cell] for cell in cells},
    }
    parts = {name: values[name] for name in ("template", "scale", "format", "wording")}
    for name, number in numbers.items():
        parts[name] = mean_of([found[cell][name] / number[cell] for cell in cells])
    known = np.nan_to_num(parts["draw"]) + np.nan_to_num(parts["partner"])
    values["total"] = parts["total"] = parts["template"] + parts["prompt"] + known
    every = np.zeros(len(next(iter(weights.values()))))
    return {name: value + every for name, value in values.items()}, parts


def across_operators(across: Pairs, degrees: int) -> Parts:
    """Variance over neurons of effects shared by all cells, by those of one operator, by those of one format.

    Args:
        across: products of the mean effects of every two cells.
    """

    def mean_where(one_format: bool, one_operator: bool) -> np.ndarray:
        wanted = one_format, one_operator
        chosen = [v for (one, two), v in across.items() if (one[0] == two[0], one[1] == two[1]) == wanted]
        return mean_of(chosen) / (degrees or np.nan) + np.zeros_like(next(iter(across.values())))

    neither = mean_where(one_format=False, one_operator=False)
    return {
        "neuron": neither,
        "operator": mean_where(one_format=False, one_operator=True) - neither,
        "template_common": mean_where(one_format=True, one_operator=False) - neither,
    }
