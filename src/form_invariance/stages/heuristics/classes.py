"""A heuristic as a class of operand pairs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from form_invariance.stages.heuristics.names import DIGIT
from form_invariance.stages.heuristics.pairs import DIGIT_MODULI, MODULI, Grid


@dataclass(frozen=True)
class PairClass:
    """The pairs for which one heuristic holds."""

    name: str
    members: np.ndarray  # (N,) bool
    size: int
    """The score is the share of members among this many top pairs."""
    both_ends: bool
    """Whether the lowest activations are scored too, and the better end counts."""


def moduli(grid: Grid) -> Iterator[tuple[str, int]]:
    """Name and modulus of each modulo heuristic: of one operand, both operands, or the result."""
    for prefix in ("op1", "op2", "both_operands", "result")[: 3 if grid.kind == "division" else 4]:
        for modulus in DIGIT_MODULI if (prefix, grid.kind) == ("result", DIGIT) else MODULI:
            for residue in range(modulus):
                yield f"{prefix}_{residue}mod{modulus}", modulus


def members_of(name: str, grid: Grid) -> np.ndarray:
    """The pairs for which the heuristic of this name holds, (N,) bool."""
    if name == "same_operand":
        return grid.a == grid.b
    if name == "carry_1":  # a carry into the asked digit, or in subtraction a borrow
        if grid.problems is None:
            return np.zeros(len(grid.a), dtype=bool)
        return grid.problems["carry"].to_numpy() == 1
    values = {"op1": [grid.a], "op2": [grid.b], "both": [grid.a, grid.b], "result": [grid.answer]}
    sides = values[name.split("_")[0]]
    holds = _holds(name, np.arange(max(int(side.max(initial=0)) for side in sides) + 1))
    return np.logical_and.reduce([holds[side] for side in sides])


@lru_cache(maxsize=10_000)
def base_rate(name: str, grid: Grid) -> float:
    """The share of pairs for which a heuristic holds."""
    return float(members_of(name, grid).mean())


def _holds(name: str, numbers: np.ndarray) -> np.ndarray:
    """Which numbers (operands or answers) satisfy a heuristic, bool."""
    last = name.split("_")[-1]
    if "_multi_value_" in name:
        return np.isin(numbers, [int(text) for text in re.findall(r"\d+", name.split("=")[1])])
    if "_value_" in name:
        return numbers == int(last)
    if "_range_" in name:
        start, end = (int(text) for text in name.split("_")[-2:])
        return (start <= numbers) & (numbers < end)
    if "mod" in last:
        residue, modulus = (int(text) for text in last.split("mod"))
        return numbers % modulus == residue
    digits = [
        numbers // 10 ** (2 - position) % 10 == int(digit) for position, digit in enumerate(last) if digit != "."
    ]
    return np.logical_and.reduce(digits)
