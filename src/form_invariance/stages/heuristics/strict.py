"""Heuristic labels with the published algorithm's faults corrected (method, section 12, points 1 and 2).

Each heuristic of size n is scored on the top n pairs; n is counted on the heuristic's own operand. Patterns and
values are classes like all others. Two heuristics that hold for the same pairs count once. A label needs a share
of 0.6 beyond chance, and a binomial test corrected for all heuristics tried. A heuristic that a neuron's better
labels already explain is not a label.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

import numpy as np
import pandas as pd
from scipy.special import bdtrc, xlogy

from form_invariance.stages.heuristics.classes import PairClass, hits, inside, modulo_masks, orders
from form_invariance.stages.heuristics.names import family, of_result
from form_invariance.stages.heuristics.pairs import Grid, operand_ranges, result_ranges

SIGNIFICANCE = 1e-3
"""Chance that a neuron of pure noise gets any label at all."""
MULTI_TOP, MULTI_SHARE = 1000, 0.95


@dataclass(frozen=True)
class Tests:
    """All classes of a grid, and what the tests need to know of them."""

    classes: list[PairClass]
    base: np.ndarray
    """Share of the grid that each class has, (classes,)."""
    count: int
    """Tests made for a neuron."""


def _digits(values: np.ndarray) -> np.ndarray:
    """Hundreds, tens and ones, (n, 3)."""
    return np.stack([values // 100, values // 10 % 10, values % 10], axis=1)


def _values_and_patterns(prefix: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for value in np.unique(values).tolist():
        yield f"{prefix}_value_{value:03d}", values == value
    digits = _digits(values)
    # A fixed first and an open last digit is a range.
    for places in ((1,), (2,), (0, 2), (1, 2)):
        chosen = digits[:, places]
        for fixed in np.unique(chosen, axis=0).tolist():
            text = ["."] * 3
            for place, digit in zip(places, fixed, strict=True):
                text[place] = str(digit)
            yield f"{prefix}_pattern_{''.join(text)}", (chosen == fixed).all(axis=1)


def _candidates(grid: Grid) -> Iterator[tuple[str, np.ndarray]]:
    """(name, members), simpler heuristics first: of two with the same pairs the first is kept."""
    for prefix, residue, modulus, members in modulo_masks(grid):
        yield f"{prefix}_{residue}mod{modulus}", members
    yield "same_operand", grid.a == grid.b
    for limits in operand_ranges(grid):
        yield f"op1_range_{limits[0]}_{limits[1]}", inside(grid.a, limits)
        yield f"op2_range_{limits[0]}_{limits[1]}", inside(grid.b, limits)
    for limits in operand_ranges(grid):
        yield f"both_operands_range_{limits[0]}_{limits[1]}", inside(grid.a, limits) & inside(grid.b, limits)
    for limits in result_ranges(grid):
        yield f"result_range_{limits[0]}_{limits[1]}", inside(grid.answer, limits)
    yield from _values_and_patterns("op1", grid.a)
    yield from _values_and_patterns("op2", grid.b)
    for name, members in _values_and_patterns("result", grid.answer):
        if grid.kind != "division" or "value" in name:
            yield name, members


def make_tests(grid: Grid) -> Tests:
    """Every heuristic of the grid, each class once; those that no pair or all pairs belong to are left out."""
    total = len(grid.a)
    seen: set[bytes] = set()
    classes = []
    for name, members in _candidates(grid):
        size = int(members.sum())
        key = np.packbits(members).tobytes()
        if 0 < size < total and key not in seen:
            seen.add(key)
            classes.append(PairClass(name, members, size, not of_result(name) or "mod" in name))
    count = sum(2 if one.both_ends else 1 for one in classes) + (4 if grid.kind == "division" else 0)
    return Tests(classes, np.array([one.size for one in classes]) / total, count)


def beyond_chance(score: pd.Series, base: pd.Series) -> pd.Series:
    """The share beyond what the class's size gives: 0 at the base rate, 1 at a perfect score."""
    return (score - base) / (1 - base)


def _columns(found: np.ndarray, sizes: np.ndarray, base: np.ndarray, tests: float | np.ndarray) -> pd.DataFrame:
    """Score, base rate, lift and corrected p of `found` members among `sizes` looked at."""
    score = found / sizes
    p_value = np.minimum(1.0, tests * bdtrc(found - 1.0, sizes, base))
    columns = {"score": score, "base_rate": base, "lift": score / base, "p_value": p_value, "size": sizes}
    return pd.DataFrame(columns)


def _scores(order: np.ndarray, tests: Tests, chosen: np.ndarray, floor: float) -> pd.DataFrame:
    """Scores of the chosen classes (positions) from `floor` on, one row a neuron and class."""
    classes = [tests.classes[place] for place in chosen]
    ends = np.array([one.both_ends for one in classes], dtype=bool)
    top = hits(order, classes)
    bottom = np.zeros_like(top)
    bottom[:, ends] = hits(order, [one for one in classes if one.both_ends], bottom=True)
    found = np.maximum(top, bottom)
    sizes = np.array([one.size for one in classes])
    row, column = np.nonzero(found / sizes >= floor)
    columns = _columns(found[row, column], sizes[column], tests.base[chosen][column], tests.count)
    names = np.array([one.name for one in classes])
    return columns.assign(neuron=row, heuristic=names[column], bottom=(bottom > top)[row, column])


def _multi(order: np.ndarray, grid: Grid, tests: Tests) -> tuple[list[pd.DataFrame], dict[str, np.ndarray]]:
    """Division: the two to five commonest answers of the top pairs, where they and no fewer hold 95 %.

    Returns:
        One row for each neuron that has a set, and the members of each set by its name.
    """
    size = min(MULTI_TOP, order.shape[1] // 10)
    answers = np.unique(grid.answer)
    parts, members = [], {}
    for neuron, top in enumerate(grid.answer[order[:, :size]]):
        counts = np.bincount(top)
        commonest = np.argsort(-counts, kind="stable")[:5]
        reached = np.flatnonzero(counts[commonest].cumsum() >= MULTI_SHARE * size)
        if not len(reached) or reached[0] == 0:
            continue
        several = int(reached[0]) + 1
        chosen = np.sort(commonest[:several])
        name = f"result_multi_value_{several}={chosen.tolist()}"
        members[name] = np.isin(grid.answer, chosen)
        own = int(members[name].sum())
        found = int(np.count_nonzero(members[name][order[neuron, :own]]))
        # The set was chosen after looking: every set of as many answers was tried.
        tried = tests.count + comb(len(answers), several)
        row = _columns(np.array([found]), np.array([own]), np.array([own / order.shape[1]]), tried)
        parts.append(row.assign(neuron=neuron, heuristic=name, bottom=False))
    return parts, members


def score(
    operand_maps: np.ndarray, result_maps: np.ndarray, grid: Grid, threshold: float = 0.6, floor: float = 0.0
) -> pd.DataFrame:
    """Score of every neuron and heuristic with its base rate, lift and corrected p, and the labels.

    Args:
        operand_maps: K maps, the neurons' last-token activations, (neurons, N).
        result_maps: KV maps, activation x logit of the pair's answer, (neurons, N).
        threshold: share beyond chance that a label needs.
        floor: rows with a lower score are left out.

    Returns:
        Columns neuron, heuristic, score, base_rate, lift, p_value (Bonferroni, over all tests of a neuron),
        label (bool), sorted by neuron, then in the order of the heuristics.
    """
    tests = make_tests(grid)
    known = {one.name: one.members for one in tests.classes}
    result = np.array([of_result(one.name) for one in tests.classes])
    tables = []
    for (where, by_operand), (_, by_result) in zip(orders(operand_maps), orders(result_maps), strict=True):
        extra, sets = _multi(by_result, grid, tests) if grid.kind == "division" else ([], {})
        parts = [
            _scores(by_operand, tests, np.flatnonzero(~result), floor),
            _scores(by_result, tests, np.flatnonzero(result), floor),
            *(row[row["score"] >= floor] for row in extra),
        ]
        table = pd.concat(parts, ignore_index=True)
        significant = (table["p_value"] < SIGNIFICANCE) & (
            beyond_chance(table["score"], table["base_rate"]) >= threshold
        )
        label = pd.Series(False, index=table.index)
        for neuron in table.loc[significant, "neuron"].unique().tolist():
            rows = table[significant & (table["neuron"] == neuron)]
            neuron_orders = (by_operand[neuron], by_result[neuron])
            label[_unexplained(rows, neuron_orders, {**known, **sets}, threshold)] = True
        tables.append(table.assign(label=label, neuron=table["neuron"] + where.start))
    table = pd.concat(tables).sort_values("neuron", kind="stable", ignore_index=True)
    return table[["neuron", "heuristic", "score", "base_rate", "lift", "p_value", "label"]]


def _evidence(rows: pd.DataFrame) -> pd.Series:
    """Log likelihood ratio of each row's score against its base rate."""
    score, base = rows["score"], rows["base_rate"]
    return rows["size"] * (xlogy(score, score / base) + xlogy(1 - score, (1 - score) / (1 - base)))


def _unexplained(
    rows: pd.DataFrame, orders_of: tuple[np.ndarray, np.ndarray], members: dict[str, np.ndarray], threshold: float
) -> list[int]:
    """Which of a neuron's significant rows are labels: the best first, then what it does not explain.

    A row of another family than the labels so far must reach the threshold and significance once more among
    the pairs that those labels do not hold for.

    Args:
        rows: significant rows of one neuron.
        orders_of: the neuron's pairs by its K map and by its KV map, highest first, (N,) each.
    """
    families = rows["heuristic"].map(family)
    labels: list[int] = []
    accepted: dict[str, np.ndarray] = {}
    for index in _evidence(rows).sort_values(ascending=False, kind="stable").index:
        own, inside_own = families[index], members[rows.loc[index, "heuristic"]]
        others = [mask for name, mask in accepted.items() if name != own]
        if others:
            order = orders_of[int(of_result(rows.loc[index, "heuristic"]))]
            if rows.loc[index, "bottom"]:
                order = order[::-1]
            if not _remains(inside_own, np.logical_or.reduce(others), order, threshold):
                continue
        labels.append(index)
        accepted[own] = accepted.get(own, False) | inside_own
    return labels


def _remains(own: np.ndarray, explained: np.ndarray, order: np.ndarray, threshold: float) -> bool:
    """Whether a class is still over-represented among the top pairs that no other family's label holds for."""
    left = own & ~explained
    outside = order[~explained[order]]
    size = int(left.sum())
    if size == 0 or size == len(outside):
        return False
    found = int(np.count_nonzero(left[outside[:size]]))
    base = size / len(outside)
    beyond = (found / size - base) / (1 - base)
    return beyond >= threshold and bool(bdtrc(found - 1.0, size, base) < SIGNIFICANCE)
