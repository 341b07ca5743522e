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


def credit(ranks: Ranks, cut: int, pairs: np.ndarray | slice = slice(None)) -> np.ndarray:
    """Chance of each pair to be among the top `cut` pairs if ties are broken at random, (pairs, neurons)."""
    return np.clip((cut - ranks.above[pairs]) / ranks.tied[pairs], 0.0, 1.0)


def scores(ranks: Ranks, classes: Sequence[PairClass]) -> tuple[np.ndarray, np.ndarray]:
    """Expected share of members among the top pairs of each neuron, as many as the rule holds for.

    Returns:
        The scores (neurons, rules), of the top or of the bottom, whichever is higher and looked at; and whether it
        is the bottom's, bool.
    """
    neurons = ranks.above.shape[1]
    found, at_bottom = np.empty((neurons, len(classes))), np.zeros((neurons, len(classes)), dtype=bool)
    lowest = ranks.reversed()
    through = len(lowest.above) - lowest.above  # pairs with the same or a higher activation
    for column, one in enumerate(classes):
        pairs, least = np.flatnonzero(one.members), len(through) - one.size
        first, last = ranks.above[pairs], through[pairs]
        top = _hits(ranks, one.size, pairs, last <= one.size, first < one.size)
        bottom = _hits(lowest, one.size, pairs, first >= least, last > least) if one.both_ends else top
        found[:, column] = np.maximum(top, bottom) / one.size
        at_bottom[:, column] = bottom > top
    return found, at_bottom


def _hits(ranks: Ranks, cut: int, pairs: np.ndarray, whole: np.ndarray, partly: np.ndarray) -> np.ndarray:
    """Credit of a rule's pairs, (neurons,); `whole` are inside the cut, `partly` may be, (pairs, neurons)."""
    found = np.count_nonzero(whole, axis=0).astype(float)
    tied = np.flatnonzero(np.count_nonzero(partly, axis=0) != found)
    if len(tied):
        found[tied] = credit(Ranks(ranks.above[:, tied], ranks.tied[:, tied]), cut, pairs).sum(0)
    return found
