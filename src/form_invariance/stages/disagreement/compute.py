"""What the formats' disagreement is made of: prompts, partners, wording or format (method, section 13)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.disagreement.components import Parts, across_operators, operator_components
from form_invariance.stages.disagreement.correlation import correlation_rows, correlations
from form_invariance.stages.disagreement.products import (
    Cell,
    Variant,
    layer_products,
    pooled,
    products_across,
    prompts_in_both,
    total,
    weights_of,
)
from form_invariance.stages.disagreement.resampled import interval, mean_of
from form_invariance.stages.disagreement.table import ALL, COMPONENTS, DISAGREEMENT, FORMAT_CORRELATION
from form_invariance.stages.patching.effects import Effects, check_sizes
from form_invariance.tables.columns import EVERY_LAYER

Row = tuple[object, ...]
_NONE = (np.nan, np.nan, np.nan)


def _rows(operator: str, layer: int, values: Parts, shares: Parts, sizes: Sequence[int]) -> list[Row]:
    """Rows of the disagreement table; a component that is no part of the total has no share.

    `scale` has no interval: resampling alone makes the scales differ.
    """
    rows: list[Row] = []
    for name in (name for name in COMPONENTS if name in values):
        found = [interval(some[name]) if name in some else _NONE for some in (values, shares)]
        if name == "scale":
            found = [(value, *_NONE[1:]) for value, _, _ in found]
        rows.append((operator, layer, name, *found[0], *found[1], *sizes))
    return rows


def _shares(parts: Parts) -> Parts:
    """What each part is of the total."""
    whole = np.where(parts["total"] > 0, parts["total"], np.nan)
    return {name: part / whole for name, part in parts.items()}


def _mean_over_operators(every: Sequence[Parts]) -> Parts:
    """Mean of each component over the operators in which it is known."""
    means = {}
    for name in every[0]:
        known = [one[name] for one in every if not np.isnan(one[name][0])]
        means[name] = mean_of(known or [every[0][name]])
    return means


def disagreement_tables(
    cells: Mapping[Cell, Effects], variants: Mapping[Cell, Sequence[Variant]], resamples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Variance components, and correlations of the formats' effects, by operator and layer.

    Args:
        cells: effects of every (format, operator) of a model.
        variants: paraphrases of a cell, where they were measured.
        resamples: bootstrap resamples over the prompts of each cell.

    Returns:
        The disagreement table and the format_correlation table.

    Raises:
        UserError: the cells have different layers, or an operator has one format only.
    """
    check_sizes({"/".join(cell): effects for cell, effects in cells.items()}, [1])
    weights = weights_of(cells, resamples, seed)
    draws = {cell: effects.draws for cell, effects in cells.items()}
    shared = {cell: prompts_in_both(effects.prompts, variants.get(cell, ())) for cell, effects in cells.items()}
    layers = list(next(iter(cells.values())).candidates)
    products = {
        operator: [layer_products(own, variants, layer, weights) for layer in layers]
        for operator, own in _by_operator(cells).items()
    }
    whole = [products_across(cells, layer, weights) for layer in layers]
    sizes = min(effects.prompts for effects in cells.values()), min(draws.values())
    rows: list[Row] = []
    related: list[Row] = []
    for layer in (EVERY_LAYER, *layers):
        chosen = slice(None) if layer == EVERY_LAYER else slice(layers.index(layer), layers.index(layer) + 1)
        every, every_share, correlated = [], [], []
        for operator, by_layer in products.items():
            one = pooled(by_layer[chosen])
            values, parts = operator_components(one, weights, draws, shared)
            shares = _shares(parts)
            found = correlations(one, weights, draws, seed)
            rows += _rows(operator, layer, values, shares, (one.neurons, *sizes))
            related += correlation_rows(operator, layer, found, one.neurons)
            every.append(values)
            every_share.append(shares)
            correlated += found
        across = total([one.across for one in whole[chosen]])
        values = _mean_over_operators(every) | across_operators(across, sum(one.degrees for one in whole[chosen]))
        neurons = sum(one.neurons for one in whole[chosen])
        rows += _rows(ALL, layer, values, _mean_over_operators(every_share), (neurons, *sizes))
        related += correlation_rows(ALL, layer, correlated, neurons)[-1:]
    return (
        pd.DataFrame(rows, columns=list(DISAGREEMENT.columns)),
        pd.DataFrame(related, columns=list(FORMAT_CORRELATION.columns)),
    )


def _by_operator(cells: Mapping[Cell, Effects]) -> dict[str, dict[Cell, Effects]]:
    """The cells of each operator.

    Raises:
        UserError: an operator has one format only.
    """
    found: dict[str, dict[Cell, Effects]] = {}
    for cell, effects in cells.items():
        found.setdefault(cell[1], {})[cell] = effects
    for operator, own in found.items():
        if len(own) < 2:
            raise UserError(
                f"--effects: {operator} has the effects of one format only; give those of at least two"
            )
    return found
