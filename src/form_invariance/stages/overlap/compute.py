"""Overlap of the formats' circuits, its chance level and its ceiling (method, sections 5 and 12.7)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.patching.effects import Effects, Summary, check_sizes, mean_over_prompts
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
        The overlap table.
    """
    check_sizes(cells, ks)
    groups = [tuple(cells)] if len(cells) == 2 else [tuple(cells), *combinations(cells, 2)]
    layers = list(next(iter(cells.values())).candidates)
    width = next(iter(cells.values())).width
    resampled = {name: _resampled_means(cell, resamples, seed, name) for name, cell in cells.items()}
    observed: dict[tuple[int, int, tuple[str, ...]], tuple[int, int]] = {}
    pooled: dict[tuple[int, tuple[str, ...]], np.ndarray] = {}
    for layer in layers:
        point = {name: cell.ranks(layer) for name, cell in cells.items()}
        draws = {name: cell.ranks(layer, resampled[name]) for name, cell in cells.items()}
        for k in ks:
            for group in groups:
                common, union = set_sizes([point[name] < k for name in group])
                observed[k, layer, group] = int(common), int(union)
                counts = np.stack(set_sizes([draws[name] < k for name in group]))  # (2, R)
                pooled[k, group] = pooled.get((k, group), 0) + counts
    rows = []
    for k in ks:
        for group in groups:
            chance = expected_jaccard(k, width, len(group), seed)
            by_layer = [(layer, *observed[k, layer, group]) for layer in layers]
            total = (EVERY_LAYER, sum(row[1] for row in by_layer), sum(row[2] for row in by_layer))
            common, union = pooled[k, group]
            interval = normal_interval(total[1] / total[2], common / union)
            for layer, size, whole in [total, *by_layer]:
                limits = interval if layer == EVERY_LAYER else (np.nan, np.nan)
                rows.append((k, layer, "+".join(group), size, whole, size / whole, chance, *limits))
    columns = ["k", "layer", "formats", "intersection", "union", "jaccard", "chance", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def random_halves(prompts: int, seed: int, name: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`HALVES` random splits of the prompts into two halves of equal size, as positions."""
    rng = generator(seed, "split-half", name)
    for _ in range(HALVES):
        order = rng.permutation(prompts)
        yield order[: prompts // 2], order[prompts // 2 : prompts // 2 * 2]


def _over(prompts: np.ndarray) -> Summary:
    return lambda effects: effects[prompts].mean(0)


def _comparisons(cell: Effects, name: str, seed: int) -> Iterator[tuple[str, list[tuple[Summary, int]]]]:
    """Kinds of comparison within a format, each with two ways to rank: (summary, draw) twice."""
    if cell.prompts >= 2:
        for first, second in random_halves(cell.prompts, seed, name):
            yield "split_half", [(_over(first), 0), (_over(second), 0)]
    for draw in range(1, cell.draws):
        yield "corrupt_seed", [(mean_over_prompts, 0), (mean_over_prompts, draw)]
    yield "median", [(mean_over_prompts, 0), (lambda effects: np.median(effects, axis=0), 0)]
    yield "trimmed_mean", [(mean_over_prompts, 0), (trimmed_mean, 0)]


def pooled_jaccards(ways: Sequence[Way], layers: Iterable[int], ks: Sequence[int]) -> np.ndarray:
    """Jaccard at every k of several ways to rank a layer's neurons, pooled over the layers, (ks,)."""
    limits = np.array(ks)[:, None]
    counts = np.zeros((2, len(ks)))
    for layer in layers:
        counts += set_sizes([place(layer) < limits for place in ways])
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
        low, high = np.quantile(repeats, [0.025, 0.975], axis=0)
        rows += [(k, *key, *values) for k, *values in zip(ks, np.mean(repeats, axis=0), low, high, strict=True)]
    return pd.DataFrame(rows, columns=["k", "format", "kind", "jaccard", "low", "high"])
