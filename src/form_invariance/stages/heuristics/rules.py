"""All rules of the strict mode over a grid, each class of pairs once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from form_invariance.stages.heuristics.classes import PairClass, carries, inside, modulo_masks
from form_invariance.stages.heuristics.names import DIGIT, of_result
from form_invariance.stages.heuristics.pairs import Grid, operand_ranges, result_ranges

SMALLEST = 5
"""Pairs that a rule must hold for: the top pairs of a smaller rule may be a few outliers."""


@dataclass(frozen=True)
class Rules:
    """The rules of a grid, and the columns of each kind."""

    classes: list[PairClass]
    sizes: np.ndarray  # (rules,)
    base: np.ndarray
    """Share of the grid that each rule holds for, (rules,)."""
    result: np.ndarray
    """Which rules are read from the KV map, (rules,) bool."""


def _values_and_patterns(prefix: str, values: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    for value in np.unique(values).tolist():
        yield f"{prefix}_value_{value:03d}", values == value
    digits = np.stack([values // 100, values // 10 % 10, values % 10], axis=1)
    # A fixed first and an open last digit is a range.
    for places in ((1,), (2,), (0, 2), (1, 2)):
        chosen = digits[:, places]
        for fixed in np.unique(chosen, axis=0).tolist():
            text = ["."] * 3
            for place, digit in zip(places, fixed, strict=True):
                text[place] = str(digit)
            yield f"{prefix}_pattern_{''.join(text)}", (chosen == fixed).all(axis=1)


def _candidates(grid: Grid) -> Iterator[tuple[str, np.ndarray]]:
    """(name, members), simpler rules first: of two with the same pairs the first is kept."""
    for prefix, residue, modulus, members in modulo_masks(grid):
        yield f"{prefix}_{residue}mod{modulus}", members
    yield "same_operand", grid.a == grid.b
    yield "carry_1", carries(grid)
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
        if grid.kind not in ("division", DIGIT) or "value" in name:
            yield name, members


def make_rules(grid: Grid) -> Rules:
    """Every rule of the grid, each class once; a class of fewer than five pairs, or of all pairs, is left out."""
    total = len(grid.a)
    seen: set[bytes] = set()
    classes = []
    for name, members in _candidates(grid):
        size = int(members.sum())
        key = np.packbits(members).tobytes()
        if SMALLEST <= size < total and key not in seen:
            seen.add(key)
            classes.append(PairClass(name, members, size, not of_result(name) or "mod" in name))
    sizes = np.array([one.size for one in classes], dtype=np.int64)
    result = np.array([of_result(one.name) for one in classes], dtype=bool)
    return Rules(classes, sizes, sizes / total, result)
