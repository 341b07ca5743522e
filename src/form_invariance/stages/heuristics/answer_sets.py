"""Division: the two to five answers that a neuron's top pairs consist of."""

from functools import lru_cache

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import Ranking
from form_invariance.stages.heuristics.rules import SMALLEST

TOP, SHARE = 1000, 0.95


def answer_set(ranking: Ranking, grid: Grid) -> tuple[PairClass, float] | None:
    """The two to five commonest answers of the top pairs, if they and no fewer hold 95 % of them, and the score.

    The set is a rule that is chosen after looking. Operators other than division have none.
    """
    total = len(grid.answer)
    if grid.kind != "division":
        return None
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
    """All answers, and the number of each pair's among them, (N,)."""
    return np.unique(grid.answer, return_inverse=True)


def _counts(ranking: Ranking, top: int, answer: np.ndarray) -> np.ndarray:
    """How many of the top pairs have each answer, (answers,), expected where ties are split.

    Args:
        answer: of each pair, as a number from 0 on, (N,).
    """
    start, end = (int(edge) for edge in ranking.around(np.array(top)))
    most = int(answer.max()) + 1
    whole, tied = (
        np.bincount(answer[part], minlength=most) for part in (ranking.order[:start], ranking.order[start:end])
    )
    return whole + tied * (top - start) / max(end - start, 1)
