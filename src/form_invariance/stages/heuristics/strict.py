"""Heuristic labels with the published algorithm's faults corrected (method, section 12, points 1 and 2).

Each rule of size n is scored on the top n pairs, with fractional credit for ties; n is counted on the rule's own
operand. Two rules that hold for the same pairs count once. A label needs a share of `threshold` beyond chance, and
more evidence than equally smooth random maps have for any rule. A rule that a neuron's better labels already
explain is not a label.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import pandas as pd

from form_invariance.stages.heuristics.answer_sets import answer_set
from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.counts import Counter, counter
from form_invariance.stages.heuristics.names import family, of_result
from form_invariance.stages.heuristics.null import Null, evidence, p_values, rule_evidence, smoothness_of
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import MapRanking
from form_invariance.stages.heuristics.rules import SMALLEST, Rules

SIGNIFICANCE = 0.01
"""The probability that a smooth random map gets any label."""
COLUMNS = ["neuron", "heuristic", "score", "base_rate", "lift", "p_value", "label"]


Share = TypeVar("Share", float, np.ndarray)


def beyond_chance(score: Share, base: Share) -> Share:
    """A score relative to its base rate: 0 at the base rate, 1 at a perfect score."""
    return (score - base) / (1 - base)


def score(
    operand: Sequence[MapRanking],
    result: Sequence[MapRanking],
    grid: Grid,
    null: Null,
    threshold: float = 0.6,
    floor: float = 0.0,
) -> pd.DataFrame:
    """The score, base rate, lift and p of every neuron and rule, and the labels.

    Args:
        operand: rankings by the K maps, the neurons' last-token activations.
        result: rankings by the KV maps, activation x logit of the pair's answer.
        null: the random maps of the grid.
        threshold: share beyond chance that a label needs.
        floor: rows with a lower score are left out.

    Returns:
        Columns neuron, heuristic, score, base_rate, lift, p_value (corrected for all rules of a neuron), label
        (bool), sorted by neuron, then in the order of the rules. A neuron with a constant K map has no label.
    """
    names: list[str] = []
    columns: list[np.ndarray] = [np.empty((0, 6))]
    for neuron, rankings in enumerate(zip(operand, result, strict=True)):
        rows = _rows(rankings, grid, null, floor)
        significant = (rows.p <= SIGNIFICANCE) & (beyond_chance(rows.scores, rows.base) >= threshold)
        labels = np.zeros(len(rows.classes))
        if not rankings[0].constant:
            labels[_unexplained(rows, np.flatnonzero(significant), rankings, threshold)] = 1
        lift = rows.scores / rows.base
        names += [pair_class.name for pair_class in rows.classes]
        columns.append(
            np.stack([np.full(len(labels), neuron), rows.scores, rows.base, lift, rows.p, labels], axis=1)
        )
    table = pd.DataFrame(np.concatenate(columns), columns=["neuron", *COLUMNS[2:]])
    table = table.assign(heuristic=pd.Series(names, dtype="str"))[COLUMNS]
    return table.astype({"neuron": "int64", "label": "bool"})


@lru_cache(maxsize=2)
def _counters(rules: Rules, grid: Grid) -> list[tuple[np.ndarray, Counter]]:
    """The columns of the rules that are read from the K map, and their counter; then those of the KV map."""
    kinds = np.flatnonzero(~rules.result), np.flatnonzero(rules.result)
    return [(columns, counter([rules.classes[column] for column in columns], grid)) for columns in kinds]


@dataclass(frozen=True)
class _Rows:
    """The rules whose score for one neuron is at least the floor, in their order."""

    classes: list[PairClass]
    scores: np.ndarray
    base: np.ndarray
    p: np.ndarray
    bottom: np.ndarray
    """Whether the lowest pairs score higher than the top pairs, bool."""


def _rows(rankings: tuple[MapRanking, MapRanking], grid: Grid, null: Null, floor: float) -> _Rows:
    rules = null.rules
    scores, bottom = np.empty(len(rules.classes)), np.empty(len(rules.classes), dtype=bool)
    for ranking, (columns, hits) in zip(rankings, _counters(rules, grid), strict=True):
        highest, lowest = hits(ranking)
        scores[columns] = np.maximum(highest, lowest) / rules.sizes[columns]
        bottom[columns] = lowest > highest
    several = answer_set(rankings[1], grid)
    smoothness = np.stack([smoothness_of(ranking, grid) for ranking in rankings])
    p = p_values(null, rule_evidence(scores, rules, several), smoothness)
    classes, base = rules.classes, rules.base
    if several is not None:
        rule, score_of_set = several
        classes, scores, bottom = [*classes, rule], np.append(scores, score_of_set), np.append(bottom, False)
        base = np.append(base, rule.size / len(rule.members))
    kept = np.flatnonzero(scores >= floor)
    return _Rows([classes[row] for row in kept], scores[kept], base[kept], p[kept], bottom[kept])


def _unexplained(
    rows: _Rows, significant: np.ndarray, rankings: Sequence[MapRanking], threshold: float
) -> list[int]:
    """Choose the labels among a neuron's significant rows, in descending order of evidence; both as indices.

    Earlier labels of other families explain the pairs for which they hold. A row must also reach the threshold on
    the pairs that they do not explain. The rankings are those by the K map and by the KV map.
    """
    sizes = np.array([rows.classes[row].size for row in significant], dtype=float)
    strength = evidence(rows.scores[significant], rows.base[significant], sizes)
    labels: list[int] = []
    accepted: dict[str, np.ndarray] = {}
    for row in significant[np.argsort(-strength, kind="stable")].tolist():
        rule, kind = rows.classes[row], family(rows.classes[row].name)
        others = [mask for other, mask in accepted.items() if other != kind]
        if others:
            explained, ranking = np.logical_or.reduce(others), rankings[int(of_result(rule.name))]
            if not _remains(rule.members, explained, ranking, threshold, bool(rows.bottom[row])):
                continue
        labels.append(row)
        accepted[kind] = accepted.get(kind, False) | rule.members
    return labels


def _remains(
    mask: np.ndarray, explained: np.ndarray, ranking: MapRanking, threshold: float, bottom: bool = False
) -> bool:
    """Whether a rule reaches the threshold on the unexplained pairs alone; `bottom` scores the lowest of them."""
    left = (mask & ~explained)[~explained]
    size, total = int(left.sum()), len(left)
    if size < SMALLEST or size == total:
        return False
    among = ranking.among(~explained)
    credited = size - float(among.top(total - size, left)) if bottom else float(among.top(size, left))
    return beyond_chance(credited / size, size / total) >= threshold
