"""The rules of the strict mode on a grid."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass, members_of, moduli
from form_invariance.stages.heuristics.names import DIGIT, of_result
from form_invariance.stages.heuristics.pairs import Grid, operand_ranges, result_ranges

SMALLEST = 5
"""A rule must hold for this many pairs: the top pairs of a smaller rule may be a few outliers."""


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of a grid."""

    classes: list[PairClass]
    sizes: np.ndarray  # (rules,)
    base: np.ndarray
    """The share of the grid for which each rule holds, (rules,)."""
    result: np.ndarray
    """Which rules are read from the KV map, (rules,) bool."""


def _values_and_patterns(prefix: str, values: np.ndarray, patterns: bool) -> Iterator[str]:
    texts = [f"{value:03d}" for value in np.unique(values).tolist()]
    yield from (f"{prefix}_value_{text}" for text in texts)
    # A pattern with a fixed first and an open last digit is a range.
    for fixed in ((1,), (2,), (0, 2), (1, 2)) if patterns else ():
        shown = {
            "".join(digit if position in fixed else "." for position, digit in enumerate(text)) for text in texts
        }
        yield from (f"{prefix}_pattern_{text}" for text in sorted(shown))


def _names(grid: Grid) -> Iterator[str]:
    """Names of rules, simpler ones first: of two rules with the same pairs the first is kept."""
    yield from (name for name, _ in moduli(grid))
    yield from ("same_operand", "carry_1")
    for start, end in operand_ranges(grid):
        yield from (f"{prefix}_range_{start}_{end}" for prefix in ("op1", "op2"))
    yield from (f"both_operands_range_{start}_{end}" for start, end in operand_ranges(grid))
    yield from (f"result_range_{start}_{end}" for start, end in result_ranges(grid))
    yield from _values_and_patterns("op1", grid.a, True)
    yield from _values_and_patterns("op2", grid.b, True)
    yield from _values_and_patterns("result", grid.answer, grid.kind not in ("division", DIGIT))


def make_rules(grid: Grid) -> Rules:
    """The rules of a grid, one for each class of pairs. A class of fewer than five pairs, or of all, has none."""
    total = len(grid.a)
    seen: set[bytes] = set()
    classes = []
    for name in _names(grid):
        members = members_of(name, grid)
        size = int(members.sum())
        key = np.packbits(members).tobytes()
        if SMALLEST <= size < total and key not in seen:
            seen.add(key)
            classes.append(PairClass(name, members, size, not of_result(name) or "mod" in name))
    sizes = np.array([pair_class.size for pair_class in classes], dtype=np.int64)
    result = np.array([of_result(pair_class.name) for pair_class in classes], dtype=bool)
    return Rules(classes, sizes, sizes / total, result)
