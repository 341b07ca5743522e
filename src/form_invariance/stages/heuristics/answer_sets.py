"""Division: the two to five answers that a neuron's top pairs consist of."""

from dataclasses import dataclass

import numpy as np

from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.rules import SMALLEST
from form_invariance.stages.heuristics.ties import Ranks, credit

TOP, SHARE = 1000, 0.95


@dataclass(frozen=True)
class AnswerSet:
    """A set of answers as a rule that is chosen after looking."""

    name: str
    members: np.ndarray  # (N,) bool
    score: float
    base: float
    size: int


def answer_set(ranks: Ranks, neuron: int, grid: Grid) -> AnswerSet | None:
    """The two to five commonest answers of the top pairs, where they and no fewer hold 95 % of them."""
    one, total = slice(neuron, neuron + 1), len(grid.answer)
    own = Ranks(ranks.above[:, one], ranks.tied[:, one], ranks.splits[:, one])
    size = min(TOP, total // 10)
    counts = np.bincount(grid.answer, weights=credit(own, size)[:, 0])
    commonest = np.argsort(-counts, kind="stable")[:5]
    reached = np.flatnonzero(counts[commonest].cumsum() >= SHARE * size - 1e-9)
    if not len(reached) or reached[0] == 0:
        return None
    several = int(reached[0]) + 1
    chosen = np.sort(commonest[:several])
    members = np.isin(grid.answer, chosen)
    held = int(members.sum())
    if not SMALLEST <= held < total:
        return None
    score = float(credit(own, held, members)[:, 0].sum()) / held
    return AnswerSet(f"result_multi_value_{several}={chosen.tolist()}", members, score, held / total, held)
