"""How many of a neuron's top pairs a rule holds for, with fractional credit where activations tie.

Where activations tie at the cut of the top n pairs, each tied pair counts with the share of the tied pairs that is
still inside the cut: the expected number of hits if ties were broken at random. A constant map therefore has
the base rate as its score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass


@dataclass(frozen=True)
class Ranks:
    """Ranks of the pairs of some neurons; neurons are the last axis, so that a rule's pairs are whole rows."""

    above: np.ndarray
    """How many pairs have a higher activation, (N, neurons) int32."""
    tied: np.ndarray
    """How many pairs have the same activation, the pair itself included, (N, neurons) int32."""
    splits: np.ndarray
    """Row n: whether the nth and the next highest pair have the same activation, (N + 1, neurons) bool."""

    def reversed(self) -> "Ranks":
        """The ranks from the lowest activation."""
        return Ranks(len(self.above) - self.above - self.tied, self.tied, self.splits[::-1])

    def column(self, neuron: int) -> "Ranks":
        """The ranks of one neuron alone, (N, 1)."""
        place = slice(neuron, neuron + 1)
        return Ranks(self.above[:, place], self.tied[:, place], self.splits[:, place])

    def of(self, neuron: int, pairs: np.ndarray) -> "Ranks":
        """The ranks of one neuron among some of the pairs (bool, (N,)) alone."""
        return rank(-self.above[pairs, neuron][None])


def rank(maps: np.ndarray) -> Ranks:
    """Ranks of maps (neurons, N), highest first; 0.0 and -0.0 tie."""
    neurons, total = maps.shape
    above, tied = (np.empty((total, neurons), dtype=np.int32) for _ in range(2))
    splits = np.ones((total + 1, neurons), dtype=bool)
    for column, values in enumerate(maps):
        order = np.argsort(-values)
        ordered = values[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        counts = np.diff(np.append(first, total))
        above[order, column] = np.repeat(first, counts)
        tied[order, column] = np.repeat(counts, counts)
        splits[np.append(first, total), column] = False
    return Ranks(above, tied, splits)


def rank_untied(maps: np.ndarray) -> np.ndarray:
    """How many pairs have a higher value, (neurons, N) int32, for maps (neurons, N) of random numbers.

    Their few ties are rounding to float32 and are broken in any order. A value's bits and its place are sorted as
    one integer, which is twice as fast as `argsort`.
    """
    place = np.arange(maps.shape[1])
    above = np.empty(maps.shape, dtype=np.int32)
    for row, values in zip(above, maps, strict=True):
        bits = values.astype(np.float32).view(np.int32)
        # The bits of negative numbers count backwards.
        highest_first = (~(bits ^ (bits >> 31 & 0x7FFFFFFF))).astype(np.int64)
        highest_first <<= 32
        highest_first |= place
        highest_first.sort()
        highest_first &= 0xFFFFFFFF
        row[highest_first] = place
    return above


def untied(above: np.ndarray) -> Ranks:
    """The ranks of maps without ties, from `rank_untied`."""
    neurons, total = above.shape
    tied = np.broadcast_to(np.int32(1), (total, neurons))
    return Ranks(above.T, tied, np.zeros((total + 1, neurons), dtype=bool))


def credit(
    ranks: Ranks, cut: int, pairs: np.ndarray | slice = slice(None), neurons: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """Chance of each pair to be among the top `cut` pairs if ties are broken at random, (pairs, neurons)."""
    above = ranks.above[pairs][:, neurons]
    if not ranks.splits[cut, neurons].any():
        return (above < cut).astype(float)
    return np.clip((cut - above) / ranks.tied[pairs][:, neurons], 0.0, 1.0)


def scores(ranks: Ranks, classes: Sequence[PairClass]) -> tuple[np.ndarray, np.ndarray]:
    """Expected share of members among the top pairs of each neuron, as many as the rule holds for.

    Returns:
        The scores (neurons, rules), of the top or of the bottom, whichever is higher and looked at; and whether it
        is the bottom's, bool.
    """
    total, neurons = ranks.above.shape
    values = np.empty((neurons, len(classes)))
    at_bottom = np.empty(values.shape, dtype=bool)
    # Narrow integers are compared several times faster.
    above, lowest = ranks.above.astype(np.min_scalar_type(total)), ranks.reversed()
    for column, one in enumerate(classes):
        pairs = np.flatnonzero(one.members)
        ranked = above[pairs]
        top = bottom = _hits(ranked < one.size, ranks, one.size, pairs)
        if one.both_ends:
            bottom = _hits(ranked >= total - one.size, lowest, one.size, pairs)
        values[:, column] = np.maximum(top, bottom) / one.size
        at_bottom[:, column] = bottom > top
    return values, at_bottom


def _hits(inside: np.ndarray, ranks: Ranks, cut: int, pairs: np.ndarray) -> np.ndarray:
    """Credit of a rule's pairs among the top `cut`, (neurons,): a count of `inside` where no ties are split."""
    counts = _count(inside).astype(float)
    split = np.flatnonzero(ranks.splits[cut])
    if len(split):
        counts[split] = credit(ranks, cut, pairs, split).sum(0)
    return counts


def _count(flags: np.ndarray) -> np.ndarray:
    """Number of true rows, (columns,); 8-bit sums of 255 rows at once are several times faster than numpy's."""
    rows = flags.view(np.uint8)
    blocks = (rows[start : start + 255].sum(0, dtype=np.uint8) for start in range(0, len(rows), 255))
    return np.stack([*blocks]).sum(0, dtype=np.int64)
