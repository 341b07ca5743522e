"""The pairs of a grid in the order of a map's activations, with the ties."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MapRanking:
    """The pairs of one map, the highest activation first, ties in the grid's order.

    Expected numbers are those of ties broken at random: if a cut splits a tie, each of its pairs counts with the
    share of the tie that lies before the cut.
    """

    order: np.ndarray  # (N,) int64
    starts: np.ndarray | None = None
    """The positions where groups of tied pairs begin, ascending, then N; None: no ties."""

    @property
    def constant(self) -> bool:
        """Whether all activations are equal."""
        return self.starts is not None and len(self.starts) == 2

    def around(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of the tie that each cut of the order splits; both are the cut where it splits none."""
        if self.starts is None:
            return cuts, cuts
        tie = np.searchsorted(self.starts, cuts, side="right")
        start, end = self.starts[tie - 1], self.starts[np.minimum(tie, len(self.starts) - 1)]
        return start, np.where(start == cuts, cuts, end)

    def top(self, cut: int, weights: np.ndarray) -> np.ndarray:
        """Sum of the weights (N, ...) of the top `cut` pairs; the expected sum if the cut splits a tie."""
        start, end = (int(edge) for edge in self.around(np.array(cut)))
        whole = weights[self.order[:start]].sum(0)
        if start == end:
            return np.asarray(whole)
        return np.asarray(whole + weights[self.order[start:end]].sum(0) * (cut - start) / (end - start))

    def among(self, pairs: np.ndarray) -> "MapRanking":
        """The ranking of a subset of the pairs (bool, (N,)), which are numbered anew from 0."""
        kept = pairs[self.order]
        order = (np.cumsum(pairs) - 1)[self.order[kept]]
        if self.starts is None:
            return MapRanking(order)
        return MapRanking(order, np.unique(np.append(0, np.cumsum(kept))[self.starts]))


def rank(values: np.ndarray) -> MapRanking:
    """The ranking of a map (N,) in float32; 0.0 and -0.0 tie.

    The bits of a value and its position are sorted as one integer, several times faster than a stable `argsort`.
    """
    bits = (0 - values.astype(np.float32)).view(np.int32)
    # As integers, the bits of negative floats are in reverse order.
    keys = (bits ^ (bits >> 31 & 0x7FFFFFFF)).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(values))
    keys.sort()
    order, ordered = keys & 0xFFFFFFFF, keys >> 32
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if len(changes) == len(values) - 1:
        return MapRanking(order)
    return MapRanking(order, np.concatenate([[0], changes, [len(values)]]))


def ranked(maps: np.ndarray) -> list[MapRanking]:
    """The rankings of maps (neurons, N)."""
    return [rank(values) for values in maps]
