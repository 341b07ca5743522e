"""How many of a map's top and bottom pairs lie in each class of pairs.

Most classes depend on one operand alone, or on the answer alone. So the pairs of each value of it are counted once
between the cuts of all classes, and a class's hits are sums of these counts.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import MapRanking

Counter = Callable[[MapRanking], tuple[np.ndarray, np.ndarray]]
"""Takes a ranking; returns each class's hits among its `size` top pairs and its bottom pairs, (classes,) each.

Where a cut splits a tie, hits are the expected number. A class without `both_ends` has its top hits in both.
"""
Before = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Takes an order (N,) and ascending cuts. Returns each class's members before its two cuts, (2, classes)."""


def counter(classes: Sequence[PairClass], grid: Grid) -> Counter:
    """The counter of these classes."""
    kind = np.array([pair_class.name.split("_")[0] for pair_class in classes])
    values = {"op1": grid.a, "op2": grid.b, "result": grid.answer}
    parts = []
    for name in np.unique(kind):
        columns = np.flatnonzero(kind == name).tolist()
        parts.append((columns, _part([classes[column] for column in columns], len(grid.a), values.get(name))))

    def hits(ranking: MapRanking) -> tuple[np.ndarray, np.ndarray]:
        top, bottom = np.empty((2, len(kind)))
        for columns, count in parts:
            top[columns], bottom[columns] = count(ranking)
        return top, bottom

    return hits


def _part(classes: Sequence[PairClass], total: int, values: np.ndarray | None) -> Counter:
    """A counter of classes that depend on `values` (N,) alone, or of any classes if `values` is None."""
    sizes = np.array([min(pair_class.size, total) for pair_class in classes])
    both = np.array([pair_class.both_ends for pair_class in classes])
    members = np.array([np.count_nonzero(pair_class.members) for pair_class in classes])
    ends = np.stack([sizes, np.where(both, total - sizes, sizes)])
    cuts, cut_of = np.unique(ends, return_inverse=True)
    cut_of = cut_of.reshape(ends.shape)
    before = _by_pair(classes, cut_of) if values is None else _by_value(classes, values, cut_of, len(cuts))

    def count(ranking: MapRanking) -> tuple[np.ndarray, np.ndarray]:
        start, end = ranking.around(cuts)
        hits = before(ranking.order, start)
        if (start != end).any():
            tied = before(ranking.order, end) - hits
            hits = hits + tied * (cuts - start)[cut_of] / np.maximum(end - start, 1)[cut_of]
        return hits[0], np.where(both, members - hits[1], hits[0])

    return count


def _by_pair(classes: Sequence[PairClass], cut_of: np.ndarray) -> Before:
    """Count the members of any classes, by each member's place in the order."""
    members = [np.flatnonzero(pair_class.members) for pair_class in classes]
    pairs, ends = np.concatenate(members), np.cumsum([0, *map(len, members)]).tolist()
    parts = [slice(*both) for both in pairwise(ends)]

    def before(order: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        places = np.empty(len(order), dtype=np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        seen = places.take(pairs)
        return np.array(
            [
                [np.count_nonzero(seen[part] < cut) for part, cut in zip(parts, row, strict=True)]
                for row in cuts[cut_of].tolist()
            ]
        )

    return before


def _by_value(classes: Sequence[PairClass], values: np.ndarray, cut_of: np.ndarray, cuts: int) -> Before:
    """Count the members of classes that depend on `values` (N,) alone; `cuts` is the number of cuts.

    A bin has the pairs of one value between two cuts of that value's classes. Bins are numbered value by value.
    """
    _, value = np.unique(values, return_inverse=True)
    levels = cuts + 1
    members = [np.unique(value[pair_class.members]) for pair_class in classes]
    # The bins at each class's two cuts, one for each of its values; a class without pairs has an unused one.
    numbers = np.concatenate([part if len(part) else [0] for part in members])
    lengths = [max(1, len(part)) for part in members]
    starts, empty = np.cumsum([0, *lengths[:-1]]), np.array([not len(part) for part in members])
    at = numbers * levels + np.repeat(cut_of, lengths, axis=1)  # (2, bins)
    last = np.unique(np.concatenate([at.ravel(), np.arange(1, value.max() + 2) * levels - 1]))
    bin_of = np.searchsorted(last, np.arange(last[-1] + 1)).astype(np.int32)
    upto, first = bin_of[at], (value * levels).astype(np.int32)
    smaller = np.add.reduceat(np.searchsorted(np.sort(value), numbers), starts)

    def before(order: np.ndarray, cuts: np.ndarray) -> np.ndarray:
        bins = first.take(order)
        # Add the number of cuts at or before each position of the order.
        bins += np.repeat(np.arange(levels, dtype=np.int32), np.diff(cuts, prepend=0, append=len(order)))
        counts = np.bincount(bin_of.take(bins), minlength=len(last)).cumsum()
        hits = np.add.reduceat(counts.take(upto), starts, axis=1) - smaller
        return np.where(empty, 0, hits)

    return before
