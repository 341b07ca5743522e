"""Overlap of any two cells by what differs between them, and how much of it is specific to the operator.

Two formats of one operator share neurons for many reasons: both end in a number, and a layer has neurons that
always matter. So their overlap is compared with that of cells that differ in the operator as well, and with that
of two halves of one cell's prompts, which is the most that can be expected. Both halves rank the same candidates.
If these are few, the halves overlap by chance, and their overlap is no ceiling.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.experiment.groups import VARIANT, joined
from form_invariance.experiment.membership import Effects, common_layers, name_of
from form_invariance.randomness import generator
from form_invariance.stages.overlap.compute import overlap_table
from form_invariance.stages.overlap.jaccard import between_halves, between_shuffled_halves, halves
from form_invariance.stages.overlap.table import (
    BOTH,
    DIFFERENCES,
    DIFFERING,
    FORMAT,
    INVARIANCE,
    LARGEST_CHANCE,
    NOTHING,
    OPERATOR,
    OPERATOR_OVERLAP,
    OPERATORS_OWN,
    OVERLAPS,
    SHUFFLED,
    WORDING,
)
from form_invariance.statistics import UNSEEN, normal_limits
from form_invariance.tables.columns import ALL, EVERY_LAYER
from form_invariance.tables.keys import CellKey


def operator_overlap_table(
    cells: Mapping[CellKey, Effects], ks: Sequence[int], resamples: int, seed: int
) -> pd.DataFrame:
    """Jaccard of the top k of every two operators in each format, pooled over the late layers.

    Returns:
        The operator_overlap table; empty if there is one operator.
    """
    tables = [pd.DataFrame(columns=list(OPERATOR_OVERLAP.columns))]
    for name in dict.fromkeys(name for name, _ in cells):
        operators = {operator: effects for (form, operator), effects in cells.items() if form == name}
        if len(operators) > 1:
            table = overlap_table(operators, ks, resamples, seed).rename(columns={"formats": "operators"})
            pair = (table["layer"] == EVERY_LAYER) & (table["operators"].str.count(r"\+") == 1)
            tables.append(table[pair].assign(format=name)[list(OPERATOR_OVERLAP.columns)])
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _pairs(cells: Sequence[CellKey]) -> Iterator[tuple[str, str, np.ndarray]]:
    """What differs, the names of the operators, and a mask over the pairs of cells (cells, cells).

    The name of one operator means its pairs: with itself, or, where both differ, with any other operator.
    """
    formats, operators = (np.array(names) for names in zip(*cells, strict=True))
    other_format, other_operator = formats[:, None] != formats, operators[:, None] != operators
    distinct = list(dict.fromkeys(operators.tolist()))
    for number, differs in enumerate(DIFFERENCES):
        mask = number == other_format + 2 * other_operator
        yield differs, ALL, mask
        for group in combinations(distinct, 2) if differs in (OPERATOR, BOTH) else ():
            inside = np.isin(operators, group)
            yield differs, joined(group), mask & inside & inside[:, None]
        for name in distinct if differs != OPERATOR else ():
            of_operator = operators == name
            yield differs, name, mask & (of_operator | of_operator[:, None])


def differing_table(
    cells: Mapping[CellKey, Effects],
    ks: Sequence[int],
    resamples: int,
    seed: int,
    variants: Mapping[CellKey, Effects] | None = None,
) -> pd.DataFrame:
    """Mean Jaccard of two cells' top k by what differs between them, and the operator-specific invariance.

    Every comparison uses half of each cell's prompts, so that all rankings use equally many; the halves of one
    cell are disjoint. Intervals are normal, with the standard error of a bootstrap over the prompts within each
    half. If all resamples are equal, for example because no neuron is shared, the interval is that of the rule of
    three over the neurons of two sets.

    Args:
        variants: effects of the cells' variants, with the format FORMAT~N; each is compared with its template, and
            with the template's other variants.

    Returns:
        The differing table; empty if a cell has one prompt. Invariance is (format − both) / (nothing − both): 1 if
        another format costs nothing, 0 if formats share no more of one operator than of different operators. It is
        NaN where shuffled effects reach more than `LARGEST_CHANCE` of the overlap where nothing differs. Its
        numerator and the shuffled Jaccard have rows of their own. There are rows for all operators together and
        for each operator (with the others).
    """
    variants = variants or {}
    layers = common_layers({**cells, **variants}, ks)
    rows = []
    if min(effects.prompts for effects in cells.values()) >= 2:
        by_k = _jaccards(cells, ks, None, seed), _jaccards(cells, ks, resamples, seed), _shuffled(cells, ks, seed)
        for k, values, resampled, chance in zip(ks, *by_k, strict=True):
            rows += [(k, *row) for row in _of_size(list(cells), values, resampled, chance, k * len(layers))]
        for name, values, resampled in _by_wording(cells, variants, ks, resamples, seed):
            for k, point, spread in zip(ks, values, resampled, strict=True):
                (value, *_), half = _means(point, spread, k * len(layers))
                rows.append((k, OVERLAPS, WORDING, name, point.shape[-1], value, value - half, value + half))
    return pd.DataFrame(rows, columns=list(DIFFERING.columns))


def _weights(cell: CellKey, effects: Effects, number: int | None, seed: int) -> np.ndarray:
    """Weights of a cell's prompts in its halves, (R, 2, P); `number` is the argument `resamples` of `halves`."""
    return halves(effects.prompts, generator(seed, "halves", str(number is not None), name_of(cell)), number)


def _jaccards(cells: Mapping[CellKey, Effects], ks: Sequence[int], number: int | None, seed: int) -> np.ndarray:
    """Jaccards between halves of the cells' prompts, (ks, R, cells, cells). Each cell has its own halves."""
    weights = {cell: _weights(cell, effects, number, seed) for cell, effects in cells.items()}
    return between_halves(cells, weights, ks)


def _shuffled(cells: Mapping[CellKey, Effects], ks: Sequence[int], seed: int) -> np.ndarray:
    """Jaccards between halves of each cell's prompts whose effects are shuffled, (ks, cells)."""
    jaccards = [
        between_shuffled_halves(effects, _weights(cell, effects, None, seed), ks)
        for cell, effects in cells.items()
    ]
    return np.stack(jaccards, axis=-1).mean(1)


def _by_wording(
    cells: Mapping[CellKey, Effects],
    variants: Mapping[CellKey, Effects],
    ks: Sequence[int],
    resamples: int,
    seed: int,
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Jaccards of every two wordings of a cell, by halves and by resampled halves, (ks, R, pairs) each.

    First for all operators together, then for each operator that has variants.
    """
    by_operator: dict[str, list[list[np.ndarray]]] = {}
    for (form, operator), effects in cells.items():
        cell_variants = {
            cell: variant
            for cell, variant in variants.items()
            if (cell[0].split(VARIANT)[0], cell[1]) == (form, operator)
        }
        if cell_variants:
            wordings = {(form, operator): effects, **cell_variants}
            other = ~np.eye(len(wordings), dtype=bool)
            jaccards = [_jaccards(wordings, ks, number, seed)[:, :, other] for number in (None, resamples)]
            for name in (ALL, operator):
                by_operator.setdefault(name, []).append(jaccards)
    for name, groups in by_operator.items():
        values, resampled = (np.concatenate(parts, axis=-1) for parts in zip(*groups, strict=True))
        yield name, values, resampled


def _means(point: np.ndarray, spread: np.ndarray, neurons: int) -> tuple[np.ndarray, float]:
    """Mean Jaccard of some pairs of cells, then that of every resample, (1 + R,), and half of the mean's interval.

    Args:
        point: Jaccards of random halves, (R, pairs).
        spread: Jaccards of resampled halves, (R, pairs).
        neurons: size of a cell's set.
    """
    means = np.array([point.mean(), *spread.mean(1)])
    # Two sets of n neurons with the Jaccard J have about (2 - J) n in their union.
    return means, _half(means, UNSEEN / ((2 - means[0]) * neurons))


def _half(values: np.ndarray, unseen: float) -> float:
    """Half of the 95 % interval of values[0], by its resamples values[1:]; `unseen` if all of these are equal."""
    low, high = normal_limits(values[0], values[1:], unseen)
    return (high - low) / 2


def _of_size(
    cells: Sequence[CellKey], point: np.ndarray, spread: np.ndarray, shuffled: np.ndarray, neurons: int
) -> Iterator[tuple[object, ...]]:
    """The rows of one k, without the column k.

    Args:
        point: Jaccards of random halves, (R, cells, cells).
        spread: Jaccards of resampled halves, (R, cells, cells).
        shuffled: Jaccard of each cell's halves if their effects are shuffled, (cells,).
        neurons: size of a cell's set.
    """
    halves_of: dict[tuple[str, str], float] = {}
    means: dict[tuple[str, str], np.ndarray] = {}
    chance: dict[str, float] = {}
    for differs, operators, mask in _pairs(cells):
        if mask.any():
            key = differs, operators
            means[key], halves_of[key] = _means(point[:, mask], spread[:, mask], neurons)
            value, half = means[key][0], halves_of[key]
            yield OVERLAPS, differs, operators, int(mask.sum()), value, value - half, value + half
        if differs == NOTHING:
            chance[operators] = float(shuffled[mask.diagonal()].mean())
            yield SHUFFLED, NOTHING, operators, int(mask.sum()), chance[operators], np.nan, np.nan
    for name in (ALL, *dict.fromkeys(operator for _, operator in cells)):
        if (FORMAT, name) in means and (BOTH, name) in means:
            other = means[BOTH, name]
            beyond, room = means[FORMAT, name] - other, means[NOTHING, name] - other
            share = beyond / np.where(room != 0, room, np.nan)
            if chance[name] > LARGEST_CHANCE * means[NOTHING, name][0]:
                share = np.full_like(share, np.nan)
            unseen = float(np.hypot(halves_of[FORMAT, name], halves_of[BOTH, name]))
            for quantity, values, none in (
                (OPERATORS_OWN, beyond, unseen),
                (INVARIANCE, share, unseen / abs(room[0]) if room[0] else np.nan),
            ):
                half = _half(values, none)
                yield quantity, "", name, 0, values[0], values[0] - half, values[0] + half
