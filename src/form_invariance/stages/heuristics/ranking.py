"""The pairs of a grid in the order of a map's activations, and where activations tie."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ranking:
    """The pairs of one map, the highest activation first, ties in the grid's order.

    Where ties are broken at random, each tied pair is among the top n with the share of its tied pairs that are.
    """

    order: np.ndarray  # (N,) int64
    starts: np.ndarray | None = None
    """Where tied pairs begin in the order, ascending, and N at the end; None: no ties."""

    @property
    def constant(self) -> bool:
        """Whether all activations are equal."""
        return self.starts is not None and len(self.starts) == 2

    def around(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of the tied pairs that each cut of the order splits; twice the cut if it splits none."""
        if self.starts is None:
            return cuts, cuts
        tie = np.searchsorted(self.starts, cuts, side="right")
        start, end = self.starts[tie - 1], self.starts[np.minimum(tie, len(self.starts) - 1)]
        return start, np.where(start == cuts, cuts, end)

    def top(self, cut: int, weights: np.ndarray) -> np.ndarray:
        """Sum of the weights (N, ...) of the top `cut` pairs, the expected one where a tie is split."""
        start, end = (int(edge) for edge in self.around(np.array(cut)))
        whole = weights[self.order[:start]].sum(0)
        if start == end:
            return np.asarray(whole)
        return np.asarray(whole + weights[self.order[start:end]].sum(0) * (cut - start) / (end - start))

    def among(self, pairs: np.ndarray) -> "Ranking":
        """The ranking of some of the pairs (bool, (N,)) alone, by their numbers among these."""
        kept = pairs[self.order]
        order = (np.cumsum(pairs) - 1)[self.order[kept]]
        if self.starts is None:
            return Ranking(order)
        return Ranking(order, np.unique(np.append(0, np.cumsum(kept))[self.starts]))


def rank(values: np.ndarray) -> Ranking:
    """The ranking of a map (N,) in float32; 0.0 and -0.0 tie.

    A value's bits and its place are sorted as one integer, which is several times faster than a stable `argsort`.
    """
    bits = (0 - values.astype(np.float32)).view(np.int32)
    # The bits of negative numbers count backwards.
    keys = (bits ^ (bits >> 31 & 0x7FFFFFFF)).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(values))
    keys.sort()
    order, ordered = keys & 0xFFFFFFFF, keys >> 32
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if len(changes) == len(values) - 1:
        return Ranking(order)
    return Ranking(order, np.concatenate([[0], changes, [len(values)]]))


def ranked(maps: np.ndarray) -> list[Ranking]:
    """The rankings of maps (neurons, N)."""
    return [rank(values) for values in maps]
