"""The published heuristic scores (Nikankin et al. 2025), to the last digit; only its crashes are fixed.

Its known faults are kept here and corrected in `strict`: the size of an operand range is counted on the first
operand for both, the number of top pairs is not the size of the class, base rates are ignored.
"""

import math
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import pandas as pd

from form_invariance.stages.heuristics.classes import PairClass, members_of, moduli
from form_invariance.stages.heuristics.counts import Counter, counter
from form_invariance.stages.heuristics.names import of_result
from form_invariance.stages.heuristics.pairs import LARGEST_ANSWER, Grid, operand_ranges, result_ranges
from form_invariance.stages.heuristics.ranking import MapRanking

PATTERNS = 5
"""This many most frequent patterns of a neuron's top pairs are kept."""
MULTI_TOP, MULTI_SHARE = 1000, 0.95
_PLACES = ("1..", ".1.", "11.", "..1", "1.1", ".11", "111")
"""Which digits a wildcard pattern fixes, in the published order."""
# Division drops these. The first three are all its ranges that contain the answer 0.
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
    """A heuristic's size, limited as published for the operators whose results are unbalanced."""
    return min(size, grid.max_operand) if grid.kind in ("multiplication", "division") else size


def _sizes(grid: Grid) -> dict[str, int]:
    """The number of top pairs that each heuristic is scored on, for those whose class depends on no neuron."""
    most, factor = grid.max_operand, _factor(grid)
    sizes = {}
    for name, modulus in moduli(grid):
        each = most // modulus
        size = int(each * most * factor) if name.startswith("op") else int(each**2 * factor)
        sizes[name] = _capped(grid, size) if of_result(name) else size
    for start, end in operand_ranges(grid):
        # The published cache has no key for the operand, so op2 has the size of op1.
        first = int(members_of(f"op1_range_{start}_{end}", grid).sum())
        both = f"both_operands_range_{start}_{end}"
        sizes |= {f"{prefix}_range_{start}_{end}": first for prefix in ("op1", "op2")}
        sizes[both] = int(members_of(both, grid).sum())
    for start, end in result_ranges(grid):
        name = f"result_range_{start}_{end}"
        sizes[name] = _capped(grid, int(members_of(name, grid).sum()))
    return sizes | {"same_operand": math.isqrt(LARGEST_ANSWER) if grid.kind == "multiplication" else most}


@lru_cache(maxsize=2)
def _counters(grid: Grid) -> list[tuple[list[str], np.ndarray, Counter]]:
    """Names and sizes of the operand heuristics, and a counter of their hits; then of the result heuristics."""
    sizes = _sizes(grid)
    counters = []
    for result in (False, True):
        names = [name for name in sizes if of_result(name) == result]
        top_only = ("same_operand", "result_range")
        classes = [
            PairClass(name, members_of(name, grid), sizes[name], not name.startswith(top_only)) for name in names
        ]
        counters.append((names, np.array([sizes[name] for name in names]), counter(classes, grid)))
    return counters


@cache
def _pattern_codes() -> tuple[np.ndarray, list[str], np.ndarray]:
    """The codes of the seven patterns of each number 0..999, (1000, 7); each code's text, and its fixed digits."""
    codes: dict[str, int] = {}
    table = []
    for number in range(LARGEST_ANSWER + 1):
        digits = f"{number:03d}"
        texts = [
            "".join(digit if fixed == "1" else "." for digit, fixed in zip(digits, places, strict=True))
            for places in _PLACES
        ]
        table.append([codes.setdefault(text, len(codes)) for text in texts])
    return np.array(table), list(codes), np.array([3 - text.count(".") for text in codes])


def _patterns(values: np.ndarray, prefix: str) -> list[tuple[int, str, float]]:
    """(neuron, heuristic, score) of the most frequent patterns in each row of values (neurons, size).

    The five most frequent are chosen first; then those that are ranges (fixed first, open last digit) are dropped.
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
    """(neuron, heuristic, score) where two to five answers hold 95 % of the top pairs; `order` is (neurons, N)."""
    top = grid.answer[order[:, :MULTI_TOP]]
    width = int(grid.answer.max()) + 1
    flat = (top + np.arange(len(top))[:, None] * width).ravel()
    counts = np.bincount(flat, minlength=len(top) * width).reshape(len(top), width)
    rows = []
    for neuron, row in enumerate(counts):
        # The published sums are in single precision.
        shares = row.astype(np.float32) / np.float32(row.sum())
        answers = np.argsort(-shares, kind="stable")
        values = shares[answers]
        for several in range(2, min(5, width) + 1):
            fewer = values[: several - 1].sum(dtype=np.float32)
            whole = fewer + values[several - 1]
            if fewer < MULTI_SHARE and whole >= MULTI_SHARE:
                together = sorted(answers[:several].tolist())
                rows.append((neuron, f"result_multi_value_{several}={together}", float(whole)))
    return rows


def _cancel_zeros(table: pd.DataFrame) -> pd.DataFrame:
    """Multiplication: a neuron whose top pairs all have the answer 000 scores 0 for what all zeros share."""
    zero = table.loc[(table["heuristic"] == "result_value_000") & (table["score"] == 1.0), "neuron"]
    cancelled = table["neuron"].isin(zero) & table["heuristic"].isin(_ZEROED)
    # Of two rows of one heuristic, the published code changes only the first.
    first = ~table.duplicated(["neuron", "heuristic"])
    return table.assign(score=table["score"].mask(cancelled & first, 0.0))


def score(
    operand: Sequence[MapRanking], result: Sequence[MapRanking], grid: Grid, floor: float = 0.0
) -> pd.DataFrame:
    """The published score of every neuron and heuristic.

    Args:
        operand: rankings by the K maps, the neurons' last-token activations.
        result: rankings by the KV maps, activation x logit of the pair's answer.
        floor: rows with a lower score are left out.

    Returns:
        Columns neuron, heuristic, score. A pattern may have two rows, one for the highest and one for the lowest
        activations.
    """
    tables = []
    for of_results, rankings in enumerate((operand, result)):
        if not rankings:
            continue
        names, sizes, hits = _counters(grid)[of_results]
        # Rankings without ties: tied pairs count in the grid's order.
        orders = [MapRanking(ranking.order) for ranking in rankings]
        shares = np.stack([np.maximum(*hits(order)) for order in orders]) / np.maximum(sizes, 1)
        row, column = np.nonzero(shares >= floor)
        fixed = pd.DataFrame({"neuron": row, "heuristic": np.array(names)[column], "score": shares[row, column]})
        derived = pd.DataFrame(_dependent(orders, grid, bool(of_results)), columns=fixed.columns)
        tables += [part for part in (fixed, derived[derived["score"] >= floor]) if len(part)]
    if not tables:
        return pd.DataFrame({"neuron": np.empty(0, int), "heuristic": np.empty(0, str), "score": np.empty(0)})
    table = pd.concat(tables, ignore_index=True)
    if grid.kind == "division":
        table = table[~table["heuristic"].isin(_DROPPED)]
    if grid.kind == "multiplication":
        table = _cancel_zeros(table)
        table = table[table["score"] >= floor]
    return table.reset_index(drop=True)


def _dependent(orders: Sequence[MapRanking], grid: Grid, result: bool) -> list[tuple[int, str, float]]:
    """(neuron, heuristic, score) of the heuristics that each neuron's top pairs suggest."""
    size = int(grid.max_operand * _factor(grid))
    top, bottom = (np.stack([ranking.order[::step][:size] for ranking in orders]) for step in (1, -1))
    if not result:
        return [
            row
            for prefix, values in (("op1", grid.a), ("op2", grid.b))
            for part in (top, bottom)
            for row in _patterns(values[part], prefix)
        ]
    rows = _patterns(grid.answer[top], "result")
    if grid.kind == "division":
        whole = np.stack([ranking.order for ranking in orders])
        return [row for row in rows if "pattern" not in row[1]] + _multi(whole, grid)
    return rows
