"""Heuristic labels with the published algorithm's faults corrected (method, section 12, points 1 and 2).

Each rule of size n is scored on the top n pairs, with fractional credit for ties; n is counted on the rule's own
operand. Two rules that hold for the same pairs count once. A label needs a share of 0.6 beyond chance, and more
evidence than equally smooth random maps have for any rule. A rule that a neuron's better labels already explain
is not a label.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from form_invariance.stages.heuristics.answer_sets import AnswerSet, answer_sets
from form_invariance.stages.heuristics.classes import ROWS
from form_invariance.stages.heuristics.names import family, of_result
from form_invariance.stages.heuristics.null import (
    Null,
    evidence,
    make_null,
    p_values,
    rule_evidence,
    smoothness_of,
)
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.rules import SMALLEST, Rules
from form_invariance.stages.heuristics.ties import Ranks, credit, rank, scores

SIGNIFICANCE = 0.01
"""Chance that a smooth random map gets any label at all."""
COLUMNS = ["neuron", "heuristic", "score", "base_rate", "lift", "p_value", "label"]


def beyond_chance(score: pd.Series, base: pd.Series) -> pd.Series:
    """The share beyond what the rule's size gives: 0 at the base rate, 1 at a perfect score."""
    return (score - base) / (1 - base)


def score(
    operand_maps: np.ndarray,
    result_maps: np.ndarray,
    grid: Grid,
    threshold: float = 0.6,
    floor: float = 0.0,
    null: Null | None = None,
) -> pd.DataFrame:
    """Score of every neuron and rule with its base rate, lift and p, and the labels.

    Args:
        operand_maps: K maps, the neurons' last-token activations, (neurons, N).
        result_maps: KV maps, activation x logit of the pair's answer, (neurons, N).
        threshold: share beyond chance that a label needs.
        floor: rows with a lower score are left out.
        null: of the grid, where it was made before.

    Returns:
        Columns neuron, heuristic, score, base_rate, lift, p_value (corrected for all rules of a neuron), label
        (bool), sorted by neuron, then in the order of the rules. A neuron with a constant K map has no label.
    """
    null = null or make_null(grid)
    tables = []
    for start in range(0, len(operand_maps), ROWS):
        both = by_operand, by_result = [rank(maps[start : start + ROWS]) for maps in (operand_maps, result_maps)]
        scored, bottom = _scores(null.rules, by_operand, by_result)
        smooth = np.stack([smoothness_of(ranks, grid) for ranks in both], axis=1)  # (neurons, 2, 2 x lags)
        sets = answer_sets(by_result, grid)
        all_evidence = rule_evidence(scored, null.rules, sets)
        p = np.stack([p_values(null, all_evidence[one], smooth[one]) for one in range(len(scored))])
        table, members = _table(null.rules, scored, bottom, sets, p, floor)
        constant = by_operand.tied[0] == len(grid.a)  # (neurons,)
        beyond = beyond_chance(table["score"], table["base_rate"])
        significant = (table["p_value"] <= SIGNIFICANCE) & (beyond >= threshold) & ~constant[table["neuron"]]
        labels = []
        for neuron, rows in table[significant].groupby("neuron"):
            labels += _unexplained(rows, both, int(neuron), members, threshold)
        tables.append(table.assign(neuron=start + table["neuron"], label=table.index.isin(labels))[COLUMNS])
    return pd.concat(tables, ignore_index=True)


def _scores(rules: Rules, by_operand: Ranks, by_result: Ranks) -> tuple[np.ndarray, np.ndarray]:
    """Score of every neuron and rule, each on its own map, (neurons, rules), and whether it is the bottom's."""
    values = np.empty((by_operand.above.shape[1], len(rules.classes)))
    bottom = np.empty(values.shape, dtype=bool)
    for ranks, kind in ((by_operand, ~rules.result), (by_result, rules.result)):
        values[:, kind], bottom[:, kind] = scores(ranks, [rules.classes[one] for one in np.flatnonzero(kind)])
    return values, bottom


def _table(
    rules: Rules,
    scored: np.ndarray,
    bottom: np.ndarray,
    sets: Sequence[AnswerSet | None],
    p: np.ndarray,
    floor: float,
) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """The rows of a score of at least `floor`, by neuron, then rule, and the pairs of each rule by its name."""
    members = {one.name: one.members for one in rules.classes}
    neuron, rule = np.nonzero(scored >= floor)
    table = pd.DataFrame({"neuron": neuron, "heuristic": pd.Series([*members]).take(rule).array})
    table = table.assign(score=scored[neuron, rule], base_rate=rules.base[rule], size=rules.sizes[rule])
    table = table.assign(bottom=bottom[neuron, rule], p_value=p[neuron, rule])
    more = []
    for place, several in enumerate(sets):
        if several is not None and several.score >= floor:
            members[several.name] = several.members
            more.append((place, several.name, several.score, several.base, several.size, False, p[place, -1]))
    if more:
        table = pd.concat([table, pd.DataFrame(more, columns=table.columns)])
        table = table.sort_values("neuron", kind="stable", ignore_index=True)
    return table.assign(lift=table["score"] / table["base_rate"]), members


def _unexplained(
    rows: pd.DataFrame, ranks: Sequence[Ranks], neuron: int, members: dict[str, np.ndarray], threshold: float
) -> list[int]:
    """Which of a neuron's significant rows are labels: the best first, then what it does not explain.

    A row of another family than the labels so far must reach the threshold once more among the pairs that
    those labels do not hold for.

    Args:
        rows: significant rows of one neuron.
        ranks: of the K maps and of the KV maps.
    """
    families = rows["heuristic"].map(family)
    labels: list[int] = []
    accepted: dict[str, np.ndarray] = {}
    numbers = (rows[name].to_numpy(dtype=float) for name in ("score", "base_rate", "size"))
    strength = pd.Series(evidence(*numbers), index=rows.index)
    for index in strength.sort_values(ascending=False, kind="stable").index:
        kind, name = families[index], rows.loc[index, "heuristic"]
        others = [mask for other, mask in accepted.items() if other != kind]
        if others:
            side = ranks[int(of_result(name))]
            side = side.reversed() if rows.loc[index, "bottom"] else side
            if not _remains(members[name], np.logical_or.reduce(others), side, neuron, threshold):
                continue
        labels.append(index)
        accepted[kind] = accepted.get(kind, False) | members[name]
    return labels


def _remains(mask: np.ndarray, explained: np.ndarray, ranks: Ranks, neuron: int, threshold: float) -> bool:
    """Whether a rule is still over-represented among the top pairs that no other family's label holds for."""
    left = (mask & ~explained)[~explained]
    size = int(left.sum())
    if size < SMALLEST or size == len(left):
        return False
    credited = float(credit(ranks.of(neuron, ~explained), size, left).sum())
    base = size / len(left)
    return (credited / size - base) / (1 - base) >= threshold
