"""Division: the two to five answers that make up a neuron's top pairs."""

from functools import lru_cache

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import MapRanking
from form_invariance.stages.heuristics.rules import SMALLEST

TOP, SHARE = 1000, 0.95


def answer_set(ranking: MapRanking, grid: Grid) -> tuple[PairClass, float] | None:
    """The fewest answers that hold 95 % of the top pairs, as a rule, and the rule's score.

    None unless the operator is division and two to five answers are needed. The data choose the rule.
    """
    if grid.kind != "division":
        return None
    total = len(grid.answer)
    top = min(TOP, total // 10)
    answers, answer = _answers(grid)
    counts = _counts(ranking, top, answer)
    commonest = np.argsort(-counts, kind="stable")[:5]
    reached = counts[commonest].cumsum() >= SHARE * top - 1e-9
    several = int(reached.argmax()) + 1
    if not reached.any() or several < 2:
        return None
    together = np.sort(answers[commonest[:several]])
    members = np.isin(grid.answer, together)
    size = int(members.sum())
    if not SMALLEST <= size < total:
        return None
    rule = PairClass(f"result_multi_value_{several}={together.tolist()}", members, size, False)
    return rule, float(ranking.top(size, members)) / size


@lru_cache(maxsize=2)
def _answers(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """The distinct answers, and the index of each pair's answer among them, (N,)."""
    return np.unique(grid.answer, return_inverse=True)


def _counts(ranking: MapRanking, top: int, answer: np.ndarray) -> np.ndarray:
    """How many of the top pairs have each answer, (answers,); the expected number where the cut splits a tie.

    Args:
        answer: index of each pair's answer, (N,).
    """
    start, end = (int(edge) for edge in ranking.around(np.array(top)))
    most = int(answer.max()) + 1
    whole, tied = (
        np.bincount(answer[part], minlength=most) for part in (ranking.order[:start], ranking.order[start:end])
    )
    return whole + tied * (top - start) / max(end - start, 1)
