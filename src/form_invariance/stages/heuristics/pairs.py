"""The analysis grid: the operand pairs on which heuristics are scored."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from cyclopts import Parameter

from form_invariance.errors import UserError
from form_invariance.experiment.task_options import NO_LIMITS, OperandOptions, limits_of
from form_invariance.problems.operands import OperandRange, evaluate
from form_invariance.problems.prompts import PromptTokenizer, check_template
from form_invariance.problems.tasks import Arithmetic, pool, prompts_of, stated, target_tokens
from form_invariance.problems.templates import check_fields, render
from form_invariance.stages.heuristics.names import DIGIT, EXPRESSIONS

LARGEST_ANSWER = 999

OPERAND_WIDTHS = {"multiplication": (3, 5, 10)}
RESULT_WIDTHS = {"multiplication": (10, 30, 50, 100), "division": (2, 10, 100)}
MODULI = range(2, 11)
DIGIT_WIDTHS, DIGIT_MODULI = (2, 3, 5), range(2, 6)
"""For an asked digit: with larger moduli most classes are single values, wider ranges hold nearly all digits."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """A grid of operand pairs."""

    expression: str
    """the operator's expression, for instance 'a // b'"""
    digit: int | None = None
    """this digit of the answer is asked, 0 = the leading one"""
    limits: OperandOptions = NO_LIMITS
    max_operand: int
    """operands of the grid are below it"""


@dataclass(frozen=True, eq=False)
class Grid:
    """Operand pairs of one operator, in lexicographic order. Grids are hashed by identity."""

    a: np.ndarray  # (N,) int64
    b: np.ndarray  # (N,)
    answer: np.ndarray  # (N,): the whole answer, or the digit that is asked
    kind: str
    max_operand: int
    """Operands are below it."""
    problems: pd.DataFrame | None = None
    """If a digit is asked, the problems in the same order, with the columns of `tasks.stated`."""


def operand_ranges(grid: Grid) -> list[tuple[int, int]]:
    """Half-open operand ranges, width by width."""
    widths = OPERAND_WIDTHS.get(grid.kind, (10, 30, 50, 100))
    return [(start, start + width) for width in widths for start in range(0, grid.max_operand, width)]


def result_ranges(grid: Grid) -> list[tuple[int, int]]:
    """Half-open result ranges, width by width; ranges of one width may overlap."""
    if grid.kind == DIGIT:
        return [(start, start + width) for width in DIGIT_WIDTHS for start in range(11 - width)]
    ends = {
        "addition": 2 * grid.max_operand,
        "multiplication": LARGEST_ANSWER + 1,
        "other": int(grid.answer.max()) + 1,
    }
    widths = RESULT_WIDTHS.get(grid.kind, (10, 30, 50))
    end = ends.get(grid.kind, grid.max_operand)
    return [(start, start + width) for width in widths for start in range(0, end, max(width // 3, 10))]


def kind_of(expression: str) -> str:
    """The kind of an operator's expression; spaces do not matter."""
    plain = "".join(expression.split())
    return next((kind for kind, text in EXPRESSIONS.items() if "".join(text.split()) == plain), "other")


def take(grid: Grid, rows: np.ndarray) -> Grid:
    """The grid of some of a grid's pairs; `rows` are their positions, or a mask."""
    problems = None if grid.problems is None else grid.problems.iloc[rows]
    return Grid(grid.a[rows], grid.b[rows], grid.answer[rows], grid.kind, grid.max_operand, problems)


@lru_cache(maxsize=2)
def published_part(grid: Grid) -> tuple[np.ndarray, Grid]:
    """The pairs that are also in the published algorithm's grid, as a mask and as a grid.

    Only for addition do the grids differ: the published one ends one below the largest answer.
    """
    keep = (grid.answer < LARGEST_ANSWER) | (grid.kind != "addition")
    return keep, take(grid, keep)


def make_grid(expression: str, max_operand: int) -> Grid:
    """All pairs of operands from 0 (division: from 1) to below `max_operand` whose answer is in 0..999.

    Raises:
        UserError: there are none.
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


def make_digit_grid(task: Arithmetic, max_operand: int) -> Grid:
    """The problems of an operator that asks for a digit, of operands below `max_operand`.

    Unlike whole answers, they keep the operator's own limits: with other limits the digit's place may change.

    Raises:
        UserError: there are none.
    """
    problems = pool(task)
    problems = problems[(problems["a"] < max_operand) & (problems["b"] < max_operand)]
    if problems.empty:
        raise UserError(
            f"heuristics: no pair of operands of '{task.expression}', digit {task.digit}, is below {max_operand}"
        )
    problems = stated(task, problems.sort_values(["a", "b"], ignore_index=True))
    a, b, digit = (problems[name].to_numpy(dtype=np.int64) for name in ("a", "b", "target"))
    return Grid(a, b, digit, DIGIT, max_operand, problems)


def grid_of_task(task: Arithmetic, max_operand: int) -> Grid:
    """The grid of an operator: for whole answers all pairs of operands, for a digit the operator's problems."""
    if task.digit is None:
        return make_grid(task.expression, max_operand)
    return make_digit_grid(task, max_operand)


def grid_of(options: GridOptions) -> Grid:
    """The grid that a command's options describe."""
    if options.digit is None:
        return make_grid(options.expression, options.max_operand)
    limits = limits_of(options.limits, "--digit")
    return make_digit_grid(Arithmetic(options.expression, limits, options.digit), options.max_operand)


def grid_prompts(
    grid: Grid, tokenizer: PromptTokenizer, template: str, where: str
) -> tuple[list[str], np.ndarray]:
    """The prompts of a grid's pairs, and their answers' token ids, (N,).

    Raises:
        UserError: the template breaks a rule; the message calls it `where`.
    """
    if grid.problems is not None:
        check_fields(template, where)
        prompts = prompts_of(template, grid.problems)
        return prompts, target_tokens(tokenizer, prompts, grid.problems, where)
    limits = OperandRange(int(grid.a.min()), grid.max_operand - 1, 0, int(grid.answer.max()))
    check_template(tokenizer, template, where, limits)
    prompts = [render(template, a, b) for a, b in zip(grid.a, grid.b, strict=True)]
    return prompts, tokenizer.number_tokens(grid.answer)
