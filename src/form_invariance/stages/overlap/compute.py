"""Overlap of the formats' circuits, its chance level and its ceiling (method, sections 5 and 12.7).

The Jaccard index of the formats' best k neurons of a layer: those that are among the best in every format over
those that are in any. Chance is that of random sets of equal sizes. Rankings are noisy, so the index is also
measured with a part of each format's prompts, and between as many parts of one format's prompts, which is its
ceiling.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, product

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.patching.effects import (
    POSITIVE,
    TOP_K,
    Effects,
    Membership,
    Summary,
    check_sizes,
    mean_over_prompts,
)
from form_invariance.statistics import bootstrap_weights, expected_jaccard, normal_interval, trimmed_mean
from form_invariance.tables.columns import EVERY_LAYER

HALVES = 20
"""Random splits of the train prompts into halves, or into as many parts as there are formats."""

Way = Callable[[int], np.ndarray]
"""From a layer to the rank of each of its neurons, (width,)."""


def set_sizes(tops: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes of intersection and union of sets given as masks (..., width)."""
    intersection = np.logical_and.reduce(tops).sum(-1)
    return intersection, np.logical_or.reduce(tops).sum(-1)


def _resampled_means(cell: Effects, resamples: int, seed: int, name: str) -> Summary:
    """A summary that gives the means over `resamples` bootstrap samples of the prompts, (R, C)."""
    weights = bootstrap_weights(cell.prompts, resamples, seed, name) / cell.prompts
    return lambda effects: weights @ effects


def overlap_table(cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """Intersection, union and Jaccard of all formats and of each pair, by layer and pooled.

    The pooled interval is normal, with the bootstrap's standard error: resampling adds noise to every
    ranking, so that percentiles of the resampled Jaccards would lie below the estimate.

    Args:
        cells: effects of each format.
        ks: circuit sizes.
        resamples: bootstrap resamples over train prompts, within each format independently.

    Returns:
        The overlap table by the cells' own rule of membership, without the columns that name the rule.
    """
    check_sizes(cells, ks)
    groups = [tuple(cells)] if len(cells) == 2 else [tuple(cells), *combinations(cells, 2)]
    width = next(iter(cells.values())).width
    resampled = {name: _resampled_means(cell, resamples, seed, name) for name, cell in cells.items()}
    chance = cache(lambda sizes: expected_jaccard(sizes, width, seed))
    pooled: dict[tuple[int, str], np.ndarray] = {}
    rows = []
    for layer in next(iter(cells.values())).candidates:
        placed = {name: cell.ranks(layer) for name, cell in cells.items()}
        positive = {name: cell.means(layer) > 0 for name, cell in cells.items()}
        draws = {name: cell.ranks(layer, resampled[name]) for name, cell in cells.items()}
        for k, group in product(ks, groups):
            tops = [placed[name] < k for name in group]
            common, union = map(int, set_sizes(tops))
            sizes = tuple(int(top.sum()) for top in tops)
            own = [int((top & positive[name]).sum()) for name, top in zip(group, tops, strict=True)]
            formats = "+".join(group)
            rows.append((k, layer, formats, sizes, own, common, union, chance(tuple(sorted(sizes)))))
            counts = np.stack(set_sizes([draws[name] < k for name in group]))  # (2, R)
            pooled[k, formats] = pooled.get((k, formats), 0) + counts
    found = pd.DataFrame(
        rows, columns=["k", "layer", "formats", "sizes", "own", "intersection", "union", "chance"]
    )
    parts = []
    for (k, formats), counts in pooled.items():
        by_layer = found[(found["k"] == k) & (found["formats"] == formats)]
        parts += [_of_all_layers(by_layer, *counts), by_layer]
    table = pd.concat(parts, ignore_index=True)
    jaccard = table["intersection"] / table["union"].replace(0, np.nan)
    members, above_zero = table["sizes"].map(min), table["own"].map(min)
    return table.assign(members=members, positive=above_zero, jaccard=jaccard).drop(columns=["sizes", "own"])


def _of_all_layers(rows: pd.DataFrame, common: np.ndarray, union: np.ndarray) -> pd.DataFrame:
    """The pooled row of one k and group of formats.

    Its chance is the mean of the layers' chances, weighted by the sizes of their sets.

    Args:
        rows: of every layer, with the columns sizes and own, a number a format.
        common: the resamples' intersections, summed over layers, (R,).
        union: likewise.
    """
    total = rows[["intersection", "union"]].sum()
    with np.errstate(invalid="ignore"):
        low, high = normal_interval(total["intersection"] / total["union"], common / union)
    weights = rows["sizes"].map(sum)
    return rows.iloc[:1].assign(
        layer=EVERY_LAYER,
        **total,
        sizes=[np.sum(rows["sizes"].tolist(), axis=0)],
        own=[np.sum(rows["own"].tolist(), axis=0)],
        chance=(rows["chance"].fillna(0) * weights).sum() / weights.sum() if weights.any() else np.nan,
        low=low,
        high=high,
    )


def by_both_rules(cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """The overlap table by either rule of membership; `used` marks the rule of the circuit."""
    own = next(iter(cells.values())).membership.rule
    tables = []
    for rule in (POSITIVE, TOP_K):
        members = {name: replace(cell, membership=Membership(rule, seed)) for name, cell in cells.items()}
        tables.append(overlap_table(members, ks, resamples, seed).assign(membership=rule, used=rule == own))
    return pd.concat(tables, ignore_index=True)


def halved(prompts: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random split of the prompts into two halves of equal size, as positions."""
    order = rng.permutation(prompts)
    return order[: prompts // 2], order[prompts // 2 : prompts // 2 * 2]


def random_halves(prompts: int, seed: int, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`HALVES` random splits of the prompts into two halves of equal size, as positions."""
    rng = generator(seed, "split-half", name)
    for _ in range(HALVES):
        yield halved(prompts, rng)


def _over(prompts: np.ndarray) -> Summary:
    return lambda effects: effects[prompts].mean(0)


def _comparisons(cell: Effects, name: str, seed: int) -> Iterator[tuple[str, list[tuple[Summary, int | None]]]]:
    """Kinds of comparison within a format, each with two ways to rank: (summary, draw or all draws) twice."""
    if cell.prompts >= 2:
        for first, second in random_halves(cell.prompts, seed, name):
            yield "split_half", [(_over(first), None), (_over(second), None)]
    for draw in range(1, cell.draws):
        yield "corrupt_seed", [(mean_over_prompts, 0), (mean_over_prompts, draw)]
    yield "median", [(mean_over_prompts, None), (lambda effects: np.median(effects, axis=0), None)]
    yield "trimmed_mean", [(mean_over_prompts, None), (trimmed_mean, None)]


def pooled_jaccards(ways: Sequence[Way], layers: Iterable[int], ks: Sequence[int]) -> np.ndarray:
    """Jaccard at every k of several ways to rank a layer's neurons, pooled over the layers, (ks,).

    Not a number where all sets are empty.
    """
    limits = np.array(ks)[:, None]
    counts = np.zeros((2, len(ks)))
    for layer in layers:
        counts += set_sizes([place(layer) < limits for place in ways])
    with np.errstate(invalid="ignore"):
        return np.asarray(counts[0] / counts[1])


def _by_parts(cells: Mapping[str, Effects], seed: int) -> Iterator[tuple[str, str, list[Way]]]:
    """Ways to rank by as many disjoint parts of the prompts as there are formats, (format, kind, ways) each.

    A format by all of its parts, and all formats by a part each: as many rankings, by as many prompts.
    """
    number = len(cells)
    if min(cell.prompts for cell in cells.values()) < number:
        return
    for repeat in range(HALVES):
        parts: dict[str, list[Way]] = {}
        for name, cell in cells.items():
            order = generator(seed, "parts", name, repeat).permutation(cell.prompts)
            parts[name] = [cell.of_prompts(part).ranks for part in np.array_split(order, number)]
            yield name, "parts", parts[name]
        yield "+".join(cells), "across_parts", [own[place] for place, own in enumerate(parts.values())]


def reliability_table(cells: Mapping[str, Effects], ks: Sequence[int], seed: int) -> pd.DataFrame:
    """How well a format's circuit agrees with itself, and the formats by as few prompts.

    Split halves are fewer rankings than the overlap of all formats, by fewer prompts; `parts` of one format
    are the ceiling of `across_parts`, which has as many rankings by as many prompts.

    Returns:
        The reliability table: mean Jaccard over the repeats of each kind, and their percentiles.
    """
    check_sizes(cells, ks)
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    for name, cell in cells.items():
        for kind, ways in _comparisons(cell, name, seed):
            placed = [partial(cell.ranks, summary=summary, draw=draw) for summary, draw in ways]
            found.setdefault((name, kind), []).append(pooled_jaccards(placed, cell.candidates, ks))
    layers = next(iter(cells.values())).candidates
    for name, kind, parts in _by_parts(cells, seed):
        found.setdefault((name, kind), []).append(pooled_jaccards(parts, layers, ks))
    rows = []
    for key, repeats in found.items():
        with warnings.catch_warnings():
            # Where no repeat has a member, the mean is not a number either.
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanquantile(repeats, [0.025, 0.975], axis=0)
            means = np.nanmean(repeats, axis=0)
        rows += [(k, *key, *values) for k, *values in zip(ks, means, low, high, strict=True)]
    return pd.DataFrame(rows, columns=["k", "format", "kind", "jaccard", "low", "high"])
