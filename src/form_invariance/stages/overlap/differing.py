"""Overlap of any two cells by what differs between them, and how much of it belongs to the operator.

Two formats of one operator share neurons for many reasons: both end in a number, and a layer has neurons that
always matter. So their overlap is compared with that of cells that differ in the operator as well, and with that
of two halves of one cell's prompts, which is the most that can be expected.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.overlap.compute import HALVES, halved
from form_invariance.stages.overlap.table import (
    BOTH,
    DIFFERENCES,
    DIFFERING,
    FORMAT,
    INVARIANCE,
    NOTHING,
    OPERATORS_OWN,
    OVERLAPS,
)
from form_invariance.stages.patching.effects import Effects, check_sizes
from form_invariance.statistics import normal_limits

_AT_ONCE = 50
"""Resamples whose sets are in memory at once."""


def _halves(prompts: int, repeats: int, resample: bool, seed: int, name: str) -> np.ndarray:
    """Weights of the prompts in two disjoint random halves, (repeats, 2, P).

    Args:
        resample: draw the prompts of each half with replacement from it.
    """
    rng = generator(seed, "halves", str(resample), name)
    half = prompts // 2
    weights = np.zeros((repeats, 2, prompts))
    for own in weights:
        for row, part in zip(own, halved(prompts, rng), strict=True):
            np.add.at(row, part[rng.integers(half, size=half)] if resample else part, 1 / half)
    return weights


def _jaccards(cells: Mapping[str, Effects], weights: Mapping[str, np.ndarray], ks: Sequence[int]) -> np.ndarray:
    """Jaccard of the first half's top k of each cell and the second half's of each, pooled over the layers.

    Args:
        weights: of each cell's prompts, (R, 2, P).

    Returns:
        (ks, R, cells, cells).
    """
    repeats, number = len(next(iter(weights.values()))), len(cells)
    counts = np.zeros((2, len(ks), repeats, number, number))
    for start in range(0, repeats, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        for layer in next(iter(cells.values())).candidates:
            placed = np.stack(
                [cell.ranks(layer, partial(np.matmul, weights[name][some])) for name, cell in cells.items()]
            )  # (cells, R, 2, width)
            for place, k in enumerate(ks):
                tops = (placed < k).astype(np.float32)
                first, second = tops[:, :, 0].swapaxes(0, 1), tops[:, :, 1].swapaxes(0, 1)  # (R, cells, width)
                common = first @ second.swapaxes(1, 2)
                counts[0, place, some] += common
                counts[1, place, some] += first.sum(-1)[:, :, None] + second.sum(-1)[:, None, :] - common
    with np.errstate(invalid="ignore"):
        return np.asarray(counts[0] / counts[1])


def _groups(names: Sequence[str]) -> Iterator[tuple[str, str, np.ndarray]]:
    """What differs, which operators, and a mask over the pairs of cells (cells, cells); pairs that exist alone."""
    formats, operators = (np.array(parts) for parts in zip(*(name.split("/") for name in names), strict=True))
    other_format = formats[:, None] != formats
    other_operator = operators[:, None] != operators
    masks = dict(
        zip(
            DIFFERENCES,
            (
                ~other_format & ~other_operator,
                other_format & ~other_operator,
                ~other_format & other_operator,
                other_format & other_operator,
            ),
            strict=True,
        )
    )
    every = list(dict.fromkeys(operators))
    for differs, mask in masks.items():
        yield differs, "all", mask
        for place, one in enumerate(every):
            if differs in (NOTHING, FORMAT):
                yield differs, one, mask & (operators == one)
                continue
            for other in every[place + 1 :]:
                either = np.isin(operators, [one, other])
                yield differs, f"{one}+{other}", mask & either & either[:, None]


def differing_table(cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """Mean Jaccard of two cells' top k by what differs between them, and the operator-specific invariance.

    Every comparison is between half of the prompts of either cell, so that all rankings are by as many prompts;
    the halves of one cell are disjoint. Intervals are normal, with the standard error of a bootstrap over the
    prompts within each half.

    Args:
        cells: effects by FORMAT/OPERATOR.
        ks: circuit sizes.
        resamples: bootstrap resamples.

    Returns:
        The differing table; empty if a cell has one prompt. Invariance is (format − both) / (nothing − both): 1 if
        another format costs nothing, 0 if formats share no more of one operator than of different operators.
        Its numerator has rows of its own.
    """
    check_sizes(cells, ks)
    if min(cell.prompts for cell in cells.values()) < 2:
        return pd.DataFrame(columns=list(DIFFERING.columns))
    point, spread = (
        _jaccards(
            cells,
            {name: _halves(cell.prompts, repeats, resample, seed, name) for name, cell in cells.items()},
            ks,
        )
        for repeats, resample in ((HALVES, False), (resamples, True))
    )
    rows = []
    for place, k in enumerate(ks):
        means: dict[str, tuple[float, np.ndarray]] = {}
        for differs, operators, mask in _groups(list(cells)):
            if mask.any():
                value, drawn = float(point[place][:, mask].mean()), spread[place][:, mask].mean(1)
                rows.append(
                    (k, OVERLAPS, differs, operators, int(mask.sum()), value, *normal_limits(value, drawn))
                )
                if operators == "all":
                    means[differs] = value, drawn
        if {FORMAT, BOTH} <= set(means):
            (ceiling, ceilings), (shared, draws), (generic, generics) = (
                means[one] for one in (NOTHING, FORMAT, BOTH)
            )
            own, owns = shared - generic, draws - generics
            share, shares = own / (ceiling - generic), owns / (ceilings - generics)
            for quantity, value, drawn in ((OPERATORS_OWN, own, owns), (INVARIANCE, share, shares)):
                rows.append((k, quantity, "", "all", 0, value, *normal_limits(value, drawn)))
    return pd.DataFrame(rows, columns=list(DIFFERING.columns))
