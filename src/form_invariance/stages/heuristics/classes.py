"""A heuristic as a class of operand pairs, and how many of a neuron's top pairs lie in it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from form_invariance.stages.heuristics.names import DIGIT
from form_invariance.stages.heuristics.pairs import DIGIT_MODULI, MODULI, Grid

ROWS = 64
"""Neurons that are sorted at once."""


@dataclass(frozen=True)
class PairClass:
    """The pairs that one heuristic holds for."""

    name: str
    members: np.ndarray  # (N,) bool
    size: int
    """How many of a neuron's top pairs are looked at."""
    both_ends: bool
    """Whether the lowest activations are looked at as well as the highest."""


def modulo_masks(grid: Grid) -> Iterator[tuple[str, int, int, np.ndarray]]:
    """(prefix, residue, modulus, members) of operand, both-operand and result modulo."""
    sources = {"op1": (grid.a,), "op2": (grid.b,), "both_operands": (grid.a, grid.b)}
    if grid.kind != "division":
        sources["result"] = (grid.answer,)
    for prefix, values in sources.items():
        for modulus in DIGIT_MODULI if (prefix, grid.kind) == ("result", DIGIT) else MODULI:
            for residue in range(modulus):
                yield prefix, residue, modulus, np.logical_and.reduce([one % modulus == residue for one in values])


def carries(grid: Grid) -> np.ndarray:
    """The pairs with a carry into the asked digit (in subtraction a borrow), (N,) bool; none without a digit."""
    return np.zeros(len(grid.a), dtype=bool) if grid.asked is None else grid.asked["carry"].to_numpy() == 1


def inside(values: np.ndarray, limits: tuple[int, int]) -> np.ndarray:
    """Which values lie in a half-open range."""
    return (limits[0] <= values) & (values < limits[1])


def members_of(name: str, grid: Grid) -> np.ndarray:
    """The pairs that a heuristic holds for, (N,) bool, by its name."""
    if name == "same_operand":
        return grid.a == grid.b
    if name == "carry_1":
        return carries(grid)
    sources = {"op1": [grid.a], "op2": [grid.b], "both": [grid.a, grid.b], "result": [grid.answer]}
    values = sources[name.split("_")[0]]
    if "_multi_value_" in name:
        return np.isin(grid.answer, [int(text) for text in re.findall(r"\d+", name.split("=")[1])])
    last = name.split("_")[-1]
    if "_range_" in name:
        start, end = (int(text) for text in name.split("_")[-2:])
        holds = [inside(one, (start, end)) for one in values]
    elif "mod" in last:
        residue, modulus = (int(text) for text in last.split("mod"))
        holds = [one % modulus == residue for one in values]
    else:
        places = [(10 ** (2 - place), int(digit)) for place, digit in enumerate(last) if digit != "."]
        holds = [one // power % 10 == digit for one in values for power, digit in places]
    return np.logical_and.reduce(holds)


def orders(maps: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Pairs of each neuron by activation, highest first, ties in the grid's order, in batches of neurons.

    Args:
        maps: (neurons, N).

    Yields:
        The neurons, and their order (batch, N).
    """
    for start in range(0, len(maps), ROWS):
        batch = torch.tensor(maps[start : start + ROWS])
        yield slice(start, start + len(batch)), torch.sort(batch, dim=1, descending=True, stable=True)[1].numpy()


def hits(order: np.ndarray, classes: Sequence[PairClass], bottom: bool = False) -> np.ndarray:
    """How many of the top (or bottom) `size` pairs of each neuron are members, (neurons, classes).

    Args:
        order: (neurons, N), highest first.
    """
    total = order.shape[1]
    counts = np.empty((len(order), len(classes)), dtype=np.int64)
    for column, one in enumerate(classes):
        size = min(one.size, total)
        part = order[:, total - size :] if bottom else order[:, :size]
        counts[:, column] = np.count_nonzero(one.members[part], axis=1)
    return counts
