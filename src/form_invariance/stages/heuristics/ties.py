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

    def reversed(self) -> "Ranks":
        """The ranks from the lowest activation."""
        return Ranks(len(self.above) - self.above - self.tied, self.tied)

    def of(self, neuron: int, pairs: np.ndarray) -> "Ranks":
        """The ranks of one neuron among some of the pairs (bool, (N,)) alone."""
        return rank(-self.above[pairs, neuron][None])


def rank(maps: np.ndarray) -> Ranks:
    """Ranks of maps (neurons, N), highest first; 0.0 and -0.0 tie."""
    neurons, total = maps.shape
    above, tied = (np.empty((total, neurons), dtype=np.int32) for _ in range(2))
    for column, values in enumerate(maps):
        order = np.argsort(-values)
        ordered = values[order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        counts = np.diff(np.append(first, total))
        above[order, column] = np.repeat(first, counts)
        tied[order, column] = np.repeat(counts, counts)
    return Ranks(above, tied)


def rank_untied(maps: np.ndarray) -> Ranks:
    """Ranks of maps (neurons, N) of random numbers, whose few ties are rounding and are broken in any order."""
    order = np.argsort(-maps, axis=1)
    above = np.empty(maps.shape, dtype=np.int32)
    np.put_along_axis(above, order, np.arange(maps.shape[1], dtype=np.int32)[None], axis=1)
    return Ranks(np.ascontiguousarray(above.T), np.ones(maps.shape[::-1], dtype=np.int32))


def credit(ranks: Ranks, cut: int, pairs: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Chance of each pair to be among the top `cut` pairs if ties are broken at random, (pairs, neurons)."""
    return np.clip((cut - ranks.above[pairs]) / ranks.tied[pairs], 0.0, 1.0)


def scores(ranks: Ranks, classes: Sequence[PairClass]) -> tuple[np.ndarray, np.ndarray]:
    """Expected share of members among the top pairs of each neuron, as many as the rule holds for.

    Returns:
        The scores (neurons, rules), of the top or of the bottom, whichever is higher and looked at; and whether it
        is the bottom's, bool.
    """
    total, neurons = ranks.above.shape
    found, at_bottom = np.empty((neurons, len(classes))), np.zeros((neurons, len(classes)), dtype=bool)
    # Narrow integers are compared several times faster.
    dtype = np.min_scalar_type(total)
    above = ranks.above.astype(dtype)
    untied = bool((ranks.tied == 1).all())
    # Without ties neither is needed, and in a null they are large.
    through = above if untied else (ranks.above + ranks.tied).astype(dtype)
    lowest = ranks if untied else ranks.reversed()
    for column, one in enumerate(classes):
        pairs, least = np.flatnonzero(one.members), total - one.size
        first, last = above[pairs], None if untied else through[pairs]
        top = _hits(ranks, one.size, pairs, first < one.size, None if last is None else last <= one.size)
        bottom = top
        if one.both_ends:
            bottom = _hits(
                lowest,
                one.size,
                pairs,
                first >= least if last is None else last > least,
                None if last is None else first >= least,
            )
        found[:, column] = np.maximum(top, bottom) / one.size
        at_bottom[:, column] = bottom > top
    return found, at_bottom


def _hits(ranks: Ranks, cut: int, pairs: np.ndarray, partly: np.ndarray, whole: np.ndarray | None) -> np.ndarray:
    """Credit of a rule's pairs, (neurons,); `whole` are inside the cut, `partly` may be, (pairs, neurons).

    Without ties all that may be inside the cut are, and `whole` is None.
    """
    found = _count(partly).astype(float)
    if whole is not None:
        tied = np.flatnonzero(found != _count(whole))
        if len(tied):
            found[tied] = credit(Ranks(ranks.above[:, tied], ranks.tied[:, tied]), cut, pairs).sum(0)
    return found


def _count(flags: np.ndarray) -> np.ndarray:
    """Number of true rows, (columns,); 8-bit sums of 255 rows at once are several times faster than numpy's."""
    rows = flags.view(np.uint8)
    blocks = (rows[start : start + 255].sum(0, dtype=np.uint8) for start in range(0, len(rows), 255))
    return np.stack([*blocks]).sum(0, dtype=np.int64)
