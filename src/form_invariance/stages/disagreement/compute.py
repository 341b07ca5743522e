"""What the formats' disagreement is made of: prompts, partners, wording or format (method, section 14)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.disagreement.components import Parts, across_operators, mean_of, operator_components
from form_invariance.stages.disagreement.correlation import correlation_rows, correlations
from form_invariance.stages.disagreement.products import (
    Cell,
    Measured,
    layer_products,
    pooled,
    products_across,
    weights_of,
)
from form_invariance.stages.disagreement.table import ALL, COMPONENTS, DISAGREEMENT, FORMAT_CORRELATION
from form_invariance.stages.membership import common_layers
from form_invariance.statistics import resampled_interval
from form_invariance.tables.columns import EVERY_LAYER

Row = tuple[object, ...]
_NONE = (np.nan, np.nan, np.nan)


def _rows(operator: str, layer: int, values: Parts, shares: Parts, sizes: Sequence[int]) -> list[Row]:
    """Rows of the disagreement table; a component that is no part of the total has no share.

    `scale` has no interval: resampling alone makes the scales differ.
    """
    rows: list[Row] = []
    for name in (name for name in COMPONENTS if name in values):
        estimates = [resampled_interval(some[name]) if name in some else _NONE for some in (values, shares)]
        if name == "scale":
            estimates = [(value, *_NONE[1:]) for value, _, _ in estimates]
        rows.append((operator, layer, name, *estimates[0], *estimates[1], *sizes))
    return rows


def _shares(parts: Parts) -> Parts:
    """What each part is of the total."""
    whole = np.where(parts["total"] > 0, parts["total"], np.nan)
    return {name: part / whole for name, part in parts.items()}


def _mean_over_operators(every: Sequence[tuple[Parts, Parts]]) -> tuple[Parts, Parts]:
    """Means over the operators in which a component is known, and shares of these operators' mean total."""
    values: Parts = {}
    shares: Parts = {}
    for name in every[0][0]:
        known = [both for both in every if not np.isnan(both[0][name][0])] or every
        values[name] = mean_of([of_operator[name] for of_operator, _ in known])
        if name in every[0][1]:
            parts = {key: mean_of([of_operator[key] for _, of_operator in known]) for key in (name, "total")}
            shares[name] = _shares(parts)[name]
    return values, shares


def disagreement_tables(
    cells: Mapping[Cell, Measured], resamples: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Variance components, and correlations of the formats' effects, by operator and layer.

    Args:
        cells: what was measured in every (format, operator) of a model.
        resamples: bootstrap resamples over the prompts of each cell.

    Returns:
        The disagreement table and the format_correlation table.

    Raises:
        UserError: the cells have different layers, or an operator has one format only.
    """
    layers = common_layers({cell: measured.effects for cell, measured in cells.items()}, [1])
    weights = weights_of(cells, resamples, seed)
    of = _by_operator(cells)
    products = {operator: [layer_products(formats, layer) for layer in layers] for operator, formats in of.items()}
    whole = [products_across(cells, layer, weights) for layer in layers]
    sizes = [
        min(values) for values in zip(*((c.effects.prompts, c.effects.draws) for c in cells.values()), strict=True)
    ]
    rows: list[Row] = []
    related: list[Row] = []
    for layer in (EVERY_LAYER, *layers):
        chosen = slice(None) if layer == EVERY_LAYER else slice(layers.index(layer), layers.index(layer) + 1)
        every, correlated = [], []
        for operator, formats in of.items():
            summed = pooled(products[operator][chosen])
            values, parts = operator_components(summed, formats, weights)
            pairs = correlations(summed, formats, weights)
            rows += _rows(operator, layer, values, _shares(parts), (summed.neurons, *sizes))
            related += correlation_rows(operator, layer, pairs, summed.neurons)
            every.append((values, parts))
            correlated += pairs
        values, shares = _mean_over_operators(every)
        across = pooled(whole[chosen])
        values |= across_operators(across.means, across.degrees, values["neuron"], values["template"])
        rows += _rows(ALL, layer, values, shares, (across.neurons, *sizes))
        related += correlation_rows(ALL, layer, correlated, across.neurons)[-1:]
    return (
        pd.DataFrame(rows, columns=list(DISAGREEMENT.columns)),
        pd.DataFrame(related, columns=list(FORMAT_CORRELATION.columns)),
    )


def _by_operator(cells: Mapping[Cell, Measured]) -> dict[str, dict[Cell, Measured]]:
    """The cells of each operator.

    Raises:
        UserError: an operator has one format only.
    """
    by_operator = {operator: {cell: cells[cell] for cell in cells if cell[1] == operator} for _, operator in cells}
    for operator, formats in by_operator.items():
        if len(formats) < 2:
            raise UserError(
                f"--effects: {operator} has the effects of one format only; give those of at least two"
            )
    return by_operator
