"""The analysis grid: all operand pairs that the heuristics of a neuron are read from."""

import ast
from dataclasses import dataclass

import numpy as np

from form_invariance.errors import UserError
from form_invariance.problems.operands import evaluate
from form_invariance.stages.heuristics.names import EXPRESSIONS

LARGEST_ANSWER = 999

OPERAND_WIDTHS = {"multiplication": (3, 5, 10)}
RESULT_WIDTHS = {"multiplication": (10, 30, 50, 100), "division": (2, 10, 100)}
MODULI = range(2, 11)


@dataclass(frozen=True)
class Grid:
    """Operand pairs of one operator, in lexicographic order."""

    a: np.ndarray  # (N,) int64
    b: np.ndarray  # (N,)
    answer: np.ndarray  # (N,)
    kind: str
    max_operand: int
    """Operands are below it."""


def operand_ranges(grid: Grid) -> list[tuple[int, int]]:
    """Half-open operand ranges, widths one after the other."""
    widths = OPERAND_WIDTHS.get(grid.kind, (10, 30, 50, 100))
    return [(start, start + width) for width in widths for start in range(0, grid.max_operand, width)]


def result_ranges(grid: Grid) -> list[tuple[int, int]]:
    """Half-open result ranges, widths one after the other, starts in overlapping steps."""
    ends = {
        "addition": 2 * grid.max_operand,
        "multiplication": LARGEST_ANSWER + 1,
        "other": int(grid.answer.max()) + 1,
    }
    widths = RESULT_WIDTHS.get(grid.kind, (10, 30, 50))
    end = ends.get(grid.kind, grid.max_operand)
    return [(start, start + width) for width in widths for start in range(0, end, max(width // 3, 10))]


def kind_of(expression: str) -> str:
    """The kind of an operator's expression; spaces and outer brackets do not matter."""
    try:
        plain = ast.unparse(ast.parse(expression.strip(), mode="eval"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # What is wrong with it is said where it is evaluated.
        return "other"
    return next((kind for kind, expression in EXPRESSIONS.items() if expression == plain), "other")


def published_part(grid: Grid) -> tuple[np.ndarray, Grid]:
    """The pairs that the published algorithm's grid has too, as a mask and as a grid.

    Its addition ends one short of the largest answer; its subtraction and multiplication are as here.
    """
    keep = (grid.answer < LARGEST_ANSWER) | (grid.kind != "addition")
    return keep, Grid(grid.a[keep], grid.b[keep], grid.answer[keep], grid.kind, grid.max_operand)


def make_grid(expression: str, max_operand: int) -> Grid:
    """All pairs of operands below `max_operand` whose answer is in 0..999.

    Args:
        expression: the operator's expression; operands begin at 1 where it divides, else at 0.

    Raises:
        UserError: no pair is left.
    """
    kind = kind_of(expression)
    operands = np.arange(1 if kind == "division" else 0, max_operand, dtype=np.int64)
    a, b = (side.ravel() for side in np.meshgrid(operands, operands, indexing="ij"))
    answer, defined = evaluate(expression, a, b)
    keep = defined & (answer >= 0) & (answer <= LARGEST_ANSWER)
    if not keep.any():
        raise UserError(
            f"heuristics: no pair of operands below {max_operand} has an answer in 0..{LARGEST_ANSWER}"
        )
    return Grid(a[keep], b[keep], answer[keep], kind, max_operand)
