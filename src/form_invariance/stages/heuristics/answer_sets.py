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


def answer_sets(ranks: Ranks, grid: Grid) -> list[AnswerSet | None]:
    """The two to five commonest answers of each neuron's top pairs, where they and no fewer hold 95 % of them.

    Operators other than division have none.
    """
    neurons, total = ranks.above.shape[1], len(grid.answer)
    if grid.kind != "division":
        return [None] * neurons
    size = min(TOP, total // 10)
    answers, answer = np.unique(grid.answer, return_inverse=True)
    counts = np.stack([_counts(ranks.column(neuron), size, answer) for neuron in range(neurons)], axis=1)
    commonest = np.argsort(-counts, axis=0, kind="stable")[:5]
    reached = np.take_along_axis(counts, commonest, axis=0).cumsum(0) >= SHARE * size - 1e-9
    several = np.where(reached.any(0), reached.argmax(0) + 1, 0)
    return [
        _answer_set(ranks, neuron, grid, np.sort(answers[commonest[: several[neuron], neuron]]))
        if several[neuron] > 1
        else None
        for neuron in range(neurons)
    ]


def _counts(ranks: Ranks, size: int, answer: np.ndarray) -> np.ndarray:
    """How many of one neuron's top pairs have each answer, (answers,).

    Args:
        answer: of each pair, as a number from 0 on, (N,).
    """
    top = np.flatnonzero(ranks.above[:, 0] < size)
    return np.bincount(answer[top], weights=credit(ranks, size, top)[:, 0], minlength=int(answer.max()) + 1)


def _answer_set(ranks: Ranks, neuron: int, grid: Grid, chosen: np.ndarray) -> AnswerSet | None:
    """Some answers as a rule, where it holds for five pairs or more, but not for all."""
    members = np.isin(grid.answer, chosen)
    size, total = int(members.sum()), len(members)
    if not SMALLEST <= size < total:
        return None
    score = float(credit(ranks.column(neuron), size, members).sum()) / size
    return AnswerSet(f"result_multi_value_{len(chosen)}={chosen.tolist()}", members, score, size / total, size)
