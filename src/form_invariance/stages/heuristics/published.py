"""The published heuristic scores (Nikankin et al. 2025), to the last digit; only its crashes are fixed.

Its known faults are kept here and corrected in `strict`: the size of an operand range is counted on the first
operand for both, top sizes are not the sizes of the classes, base rates are ignored.
"""

import math
from functools import cache

import numpy as np
import pandas as pd
import torch

from form_invariance.stages.heuristics.classes import PairClass, hits, inside, modulo_masks, orders
from form_invariance.stages.heuristics.names import of_result
from form_invariance.stages.heuristics.pairs import LARGEST_ANSWER, Grid, operand_ranges, result_ranges

PATTERNS = 5
"""The most frequent patterns of a list that are kept."""
MULTI_TOP, MULTI_SHARE = 1000, 0.95
_PLACES = ("1..", ".1.", "11.", "..1", "1.1", ".11", "111")
"""Which digits a wildcard pattern fixes, in the published order."""
# Of division. The first three are all its ranges that hold the answer 0.
_DROPPED = {
    "result_range_0_100",
    "result_range_0_10",
    "result_range_0_2",
    "result_multi_value_2=[0, 1]",
    "result_multi_value_2=[0, 2]",
    "result_multi_value_3=[0, 1, 2]",
    "result_multi_value_4=[0, 1, 2, 3]",
    "result_multi_value_5=[0, 1, 2, 3, 4]",
}
_ZEROED = [f"result_0mod{n}" for n in range(2, 11)]
_ZEROED += [f"{value}_pattern_{p}" for value in ("op1", "op2", "result") for p in ("..0", ".00", "0.0", "00.")]


def _factor(grid: Grid) -> float:
    return len(grid.a) / grid.max_operand**2


def _capped(grid: Grid, size: int) -> int:
    """The published remedy for unbalanced results."""
    return min(size, grid.max_operand) if grid.kind in ("multiplication", "division") else size


def pair_classes(grid: Grid) -> list[PairClass]:
    """All heuristics whose class does not depend on the neuron."""
    most = grid.max_operand
    factor = _factor(grid)
    classes = []
    for prefix, residue, modulus, members in modulo_masks(grid):
        each = most // modulus
        size = int(each * most * factor) if prefix.startswith("op") else int(each**2 * factor)
        size = _capped(grid, size) if prefix == "result" else size
        classes.append(PairClass(f"{prefix}_{residue}mod{modulus}", members, size, True))
    for limits in operand_ranges(grid):
        first, second = inside(grid.a, limits), inside(grid.b, limits)
        end = f"range_{limits[0]}_{limits[1]}"
        size = int(first.sum())  # For op2 as well: the published cache does not know the operand.
        classes += [PairClass(f"op1_{end}", first, size, True), PairClass(f"op2_{end}", second, size, True)]
        both = first & second
        classes.append(PairClass(f"both_operands_{end}", both, int(both.sum()), True))
    for limits in result_ranges(grid):
        members = inside(grid.answer, limits)
        name = f"result_range_{limits[0]}_{limits[1]}"
        classes.append(PairClass(name, members, _capped(grid, int(members.sum())), False))
    size = math.isqrt(LARGEST_ANSWER) if grid.kind == "multiplication" else most
    return [*classes, PairClass("same_operand", grid.a == grid.b, size, False)]


def _shares(order: np.ndarray, classes: list[PairClass]) -> np.ndarray:
    """Score of each class, (neurons, classes): the larger share of top and bottom."""
    sizes = np.array([one.size for one in classes])
    top = hits(order, classes)
    ends = np.array([one.both_ends for one in classes])
    both = [one for one in classes if one.both_ends]
    top[:, ends] = np.maximum(top[:, ends], hits(order, both, bottom=True))
    return top / np.maximum(sizes, 1)


@cache
def _pattern_codes() -> tuple[np.ndarray, list[str], np.ndarray]:
    """For each number 0..999 the codes of its seven patterns; the patterns' texts; their fixed digits."""
    codes: dict[str, int] = {}
    table = []
    for number in range(LARGEST_ANSWER + 1):
        digits = f"{number:03d}"
        texts = [
            "".join(digit if place == "1" else "." for digit, place in zip(digits, places, strict=True))
            for places in _PLACES
        ]
        table.append([codes.setdefault(text, len(codes)) for text in texts])
    return np.array(table), list(codes), np.array([3 - text.count(".") for text in codes])


def _patterns(values: np.ndarray, prefix: str) -> list[tuple[int, str, float]]:
    """(neuron, heuristic, score) of the most frequent patterns in each row of values (neurons, size).

    The five most frequent are chosen first, then those that are ranges (fixed first, open last digit) go.
    """
    table, texts, fixed = _pattern_codes()
    rows, size = values.shape
    if size == 0:
        return []
    codes = table[values].reshape(rows, -1)  # (neurons, size * 7), in the published order
    flat = (codes + np.arange(rows)[:, None] * len(texts)).ravel()
    counts = np.bincount(flat, minlength=rows * len(texts)).reshape(rows, len(texts))
    first = np.zeros(rows * len(texts), dtype=np.int64)
    first[flat[::-1]] = np.tile(np.arange(codes.shape[1])[::-1], rows)
    # By count, then by fixed digits, then by first occurrence.
    last = codes.shape[1]
    key = (counts * 4 + fixed) * last + (last - 1 - first.reshape(rows, len(texts)))
    key[(counts == 0) | (counts < size // 10)] = -1
    best = np.argsort(-key, axis=1, kind="stable")[:, :PATTERNS]
    scored = []
    for neuron, pattern in zip(np.repeat(np.arange(rows), PATTERNS), best.ravel(), strict=True):
        text = texts[pattern]
        if key[neuron, pattern] < 0 or (text[0] != "." and text[-1] == "."):
            continue
        kind = "value" if "." not in text else "pattern"
        scored.append((int(neuron), f"{prefix}_{kind}_{text}", counts[neuron, pattern] / size))
    return scored


def _multi(order: np.ndarray, grid: Grid) -> list[tuple[int, str, float]]:
    """(neuron, heuristic, score) of neurons whose top thousand pairs have two to five answers."""
    top = grid.answer[order[:, :MULTI_TOP]]
    width = int(grid.answer.max()) + 1
    flat = (top + np.arange(len(top))[:, None] * width).ravel()
    counts = np.bincount(flat, minlength=len(top) * width).reshape(len(top), width)
    rows = []
    for neuron, row in enumerate(counts):
        # The published sums are in single precision.
        shares = torch.from_numpy(row).float()
        values, answers = (shares / shares.sum()).sort(descending=True, stable=True)
        for several in range(2, min(5, width) + 1):
            fewer = values[: several - 1].sum()
            whole = fewer + values[several - 1]
            if fewer < MULTI_SHARE and whole >= MULTI_SHARE:
                chosen = sorted(answers[:several].tolist())
                rows.append((neuron, f"result_multi_value_{several}={chosen}", whole.item()))
    return rows


def _cancel_zeros(table: pd.DataFrame) -> pd.DataFrame:
    """Multiplication: a neuron for the answer 000 scores nothing for what all zeros share."""
    zero = table.loc[(table["heuristic"] == "result_value_000") & (table["score"] == 1.0), "neuron"]
    cancelled = table["neuron"].isin(zero) & table["heuristic"].isin(_ZEROED)
    first = ~table.duplicated(["neuron", "heuristic"])  # Of two rows of one name the published code finds one.
    return table.assign(score=table["score"].mask(cancelled & first, 0.0))


def score(operand_maps: np.ndarray, result_maps: np.ndarray, grid: Grid, floor: float = 0.0) -> pd.DataFrame:
    """The published score of every neuron and heuristic.

    Args:
        operand_maps: K maps, the neurons' last-token activations, (neurons, N).
        result_maps: KV maps, activation x logit of the pair's answer, (neurons, N).
        floor: rows with a lower score are left out.

    Returns:
        Columns neuron, heuristic, score. A pattern may have two rows, one of the highest and one of the lowest
        activations.
    """
    classes = pair_classes(grid)
    tables = []
    size = int(grid.max_operand * _factor(grid))
    for result, maps in ((False, operand_maps), (True, result_maps)):
        chosen = [one for one in classes if of_result(one.name) == result]
        names = np.array([one.name for one in chosen])
        for where, order in orders(maps):
            shares = _shares(order, chosen)
            row, column = np.nonzero(shares >= floor)
            fixed = pd.DataFrame({"neuron": row, "heuristic": names[column], "score": shares[row, column]})
            derived = pd.DataFrame(_dependent(order, size, grid, result), columns=["neuron", "heuristic", "score"])
            parts = [part for part in (fixed, derived[derived["score"] >= floor]) if len(part)]
            tables += [part.assign(neuron=part["neuron"] + where.start) for part in parts]
    if not tables:
        return pd.DataFrame({"neuron": np.empty(0, int), "heuristic": np.empty(0, str), "score": np.empty(0)})
    table = pd.concat(tables, ignore_index=True)
    if grid.kind == "division":
        table = table[~table["heuristic"].isin(_DROPPED)]
    if grid.kind == "multiplication":
        table = _cancel_zeros(table)
        table = table[table["score"] >= floor]
    return table.reset_index(drop=True)


def _dependent(order: np.ndarray, size: int, grid: Grid, result: bool) -> list[tuple[int, str, float]]:
    """Heuristics that each neuron's own top pairs suggest: (neuron, heuristic, score)."""
    top, bottom = order[:, :size], order[:, ::-1][:, :size]
    if not result:
        return [
            row
            for prefix, values in (("op1", grid.a), ("op2", grid.b))
            for part in (top, bottom)
            for row in _patterns(values[part], prefix)
        ]
    rows = _patterns(grid.answer[top], "result")
    if grid.kind == "division":
        return [row for row in rows if "pattern" not in row[1]] + _multi(order, grid)
    return rows
