"""Operators, and the pool of operand pairs from which a cell's problems are taken (method, section 1)."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.randomness import generator

_BINARY: dict[type, Callable[..., np.ndarray]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}

LONGEST_EXPRESSION = 200
"""Limit in characters; Python cannot parse expressions that are nested too deeply."""
_TRIED = 500
"""Number of prompts that check a template before the model runs; a job checks all of its prompts."""
_EXACT = 2**53
"""Up to this value whole numbers are exact in double precision."""

# In lambdas, because numpy's functions accept a further argument, the array to write into.
_CALLS: dict[str, Callable[..., np.ndarray]] = {
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
    "abs": lambda value: np.abs(value),
}


@dataclass(frozen=True)
class OperandRange:
    """Inclusive limits of both operands and of the answer.

    The defaults are deduced from the paper's tables: they give exactly the 2,520 multiplication pairs of
    Table `correct_census` and 164 distinct quotients.
    """

    operand_min: int = 6
    operand_max: int = 999
    answer_min: int = 3
    answer_max: int = 999


def evaluate(expression: str, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Apply an operator's expression, such as ``a // b``, to integer operands.

    Args:
        expression: integers, `a`, `b`, ``+ - * // %``, unary minus, ``min max abs``; nothing else is evaluated.
        a, b: operands, int64, shape (n,).

    Returns:
        The answers, int64, shape (n,), and a mask, bool, shape (n,), of the pairs for which the expression
        is defined (no division by zero, no intermediate result above 2^53).
    """
    if len(expression) > LONGEST_EXPRESSION:
        raise UserError(
            f"operator expression {expression[:20]!r}… has {len(expression)} characters; use at most "
            f"{LONGEST_EXPRESSION}"
        )
    defined = np.ones(len(a), dtype=bool)

    def visit(node: ast.AST) -> np.ndarray:
        match node:
            case ast.Name(id="a"):
                return a
            case ast.Name(id="b"):
                return b
            case ast.Name(id=name):
                raise UserError(
                    f"operator expression {expression!r} has the variable {name!r}, but the operands are a and b; "
                    "ask problems with more numbers as a table"
                )
            case ast.Constant(value=value) if type(value) is int:
                return np.full(len(a), value, dtype=np.int64)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                x, y = visit(left), visit(right)
                if isinstance(op, ast.FloorDiv | ast.Mod):
                    defined[y == 0] = False
                    y = np.where(y == 0, 1, y)
                large = np.abs(_BINARY[type(op)](x.astype(float), y.astype(float))) > _EXACT
                defined[large] = False
                return np.where(large, 0, _BINARY[type(op)](x, y))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLS and args:
                return _CALLS[name](*map(visit, args))
        raise UserError(
            f"operator expression {expression!r} contains something other than a, b, whole numbers, "
            "+ - * // %, min, max and abs; write for instance 'a // b'"
        )

    try:
        tree = ast.parse(expression, mode="eval").body
        answers = visit(tree)
    except (SyntaxError, ValueError, TypeError, OverflowError) as error:
        raise UserError(
            f"operator expression {expression!r} cannot be read; write for instance 'a + b'"
        ) from error
    return np.asarray(answers, dtype=np.int64), defined


def operand_pool(expression: str, limits: OperandRange) -> pd.DataFrame:
    """All pairs whose operands and answer are within `limits`, in lexicographic order.

    Returns:
        Columns a, b, answer (int64).
    """
    operands = np.arange(limits.operand_min, limits.operand_max + 1, dtype=np.int64)
    a, b = (grid.ravel() for grid in np.meshgrid(operands, operands, indexing="ij"))
    answer, defined = evaluate(expression, a, b)
    keep = defined & (answer >= limits.answer_min) & (answer <= limits.answer_max)
    if not keep.any():
        raise UserError(
            f"operands: no pair of {limits.operand_min}..{limits.operand_max} has an answer of "
            f"'{expression}' within {limits.answer_min}..{limits.answer_max}; widen operand_min, "
            "operand_max, answer_min or answer_max"
        )
    return pd.DataFrame({"a": a[keep], "b": b[keep], "answer": answer[keep]})


def evenly_spaced(problems: pd.DataFrame) -> pd.DataFrame:
    """At most `_TRIED` of the problems, evenly spaced, to check a template with: all of them would be too many."""
    return problems.iloc[np.linspace(0, len(problems) - 1, min(len(problems), _TRIED)).astype(int)]


def sample_pairs(pool: pd.DataFrame, size: int | None, per_answer: int, seed: int, name: str) -> pd.DataFrame:
    """A seeded uniform sample of the pool, plus further pairs so that every answer occurs.

    A uniform sample contains few of the rare answers (large quotients), but the dataset needs as many distinct
    answers as possible. So up to `per_answer` pairs of every answer are added. They are marked, and rates are
    computed on the uniform part alone.

    Args:
        pool: columns a, b, answer.
        size: number of pairs in the uniform sample; None takes the whole pool.
        per_answer: least number of pairs with each answer, as far as the pool has them.
        seed: the run's seed; the same pairs are drawn for every model and format.

    Returns:
        Columns a, b, answer, uniform (bool: part of the uniform sample), in lexicographic order.
    """
    if size is None or size >= len(pool):
        return pool.assign(uniform=True)
    order = generator(seed, "census", name).permutation(len(pool))
    shuffled = pool.iloc[order].assign(uniform=np.arange(len(pool)) < size)
    covers = shuffled.groupby("answer").cumcount() < per_answer
    return shuffled[shuffled["uniform"] | covers].sort_values(["a", "b"], ignore_index=True)
