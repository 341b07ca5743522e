"""Activation maps from a table: one row a pair, one column a neuron."""

from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.operands import evaluate
from form_invariance.stages.heuristics.names import EXPRESSIONS
from form_invariance.stages.heuristics.pairs import LARGEST_ANSWER, Grid

_PAIR = ["op1", "op2", "result"]


def read_maps(path: Path, kind: str, max_operand: int) -> tuple[Grid, pd.DataFrame]:
    """Read a table with the columns op1, op2, result and the neurons'.

    Returns:
        The pairs in lexicographic order, whatever the order of the rows; and the maps, float32, a row for each of
        these pairs, a column for each neuron under its name.

    Raises:
        UserError: the file is missing or is not a Parquet table, a column is missing or appears twice, a pair is
            out of range, appears twice or has another result than the operator gives, or an activation is not a
            finite number.
    """
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a Parquet table ({str(error).splitlines()[0]})") from None
    table.columns = table.columns.map(str)
    if list(table.columns[:3]) != _PAIR or len(table.columns) < 4 or not len(table):
        raise UserError(f"{path} must have the columns op1, op2, result, then one column a neuron, and rows")
    if not table.columns.is_unique:
        again = table.columns[table.columns.duplicated()][0]
        raise UserError(f"{path}: two columns have the name {again!r}; give each neuron a name of its own")
    try:
        table = table.sort_values(_PAIR[:2], ignore_index=True)
        pairs = table[_PAIR].to_numpy().T
        maps = table.iloc[:, 3:].astype(np.float32)
        if (pairs != np.floor(pairs)).any():
            raise ValueError
    except (TypeError, ValueError):
        raise UserError(f"{path}: op1, op2 and result must be whole numbers, activations numbers") from None
    a, b, answer = pairs.astype(np.int64)
    largest = max(a.max(), b.max())
    if largest > LARGEST_ANSWER:
        raise UserError(
            f"{path}: the operand {largest} is too large; operands must be in 0..{LARGEST_ANSWER}, since "
            "heuristics look at three digits"
        )
    if min(a.min(), b.min()) < 0 or largest >= max_operand:
        raise UserError(f"{path}: operands must be in 0..{max_operand - 1}; give the right --max-operand")
    twice = table.duplicated(_PAIR[:2]).to_numpy()
    if twice.any():
        first = twice.argmax()
        raise UserError(f"{path}: the pair op1 = {a[first]}, op2 = {b[first]} appears twice; keep one of its rows")
    if answer.min() < 0 or answer.max() > LARGEST_ANSWER:
        raise UserError(f"{path}: results must be in 0..{LARGEST_ANSWER}")
    expression = EXPRESSIONS.get(kind)
    if expression and not np.array_equal(evaluate(expression, a, b)[0], answer):
        raise UserError(
            f"{path}: result is not {expression} of op1 and op2 in every row; give the right --operator"
        )
    if not np.isfinite(maps.to_numpy()).all():
        raise UserError(f"{path}: activations must be finite numbers")
    return Grid(a, b, answer, kind, max_operand), maps


def read_both(
    activations: Path, result_activations: Path | None, kind: str, max_operand: int, threshold: float
) -> tuple[Grid, list[str], np.ndarray, np.ndarray]:
    """The pairs, the neurons' names, and the K and KV maps (neurons, N) of two tables, or of one that is both.

    The tables are joined by operands and by names of neurons; the first one orders the neurons.

    Raises:
        UserError: an option is out of range, a table is wrong (`read_maps`), or the two do not fit.
    """
    if max_operand > LARGEST_ANSWER + 1:
        raise UserError(
            f"--max-operand: {max_operand} is too large; operands must be in 0..{LARGEST_ANSWER}, so give at "
            f"most {LARGEST_ANSWER + 1}"
        )
    if not 0 < threshold <= 1:
        raise UserError(f"--threshold: {threshold} must be above 0 and at most 1")
    grid, maps = read_maps(activations, kind, max_operand)
    if result_activations is None:
        return grid, [*map(str, maps.columns)], _neurons_first(maps), _neurons_first(maps)
    other, result_maps = read_maps(result_activations, kind, max_operand)
    if not all(map(np.array_equal, *((one.a, one.b, one.answer) for one in (grid, other)))):
        raise UserError(f"{result_activations} must have the same op1, op2 and result as {activations}")
    if alone := set(maps.columns) ^ set(result_maps.columns):
        raise UserError(
            f"{result_activations} must have the same neurons as {activations}, by the names of their columns; "
            f"only one of the two has {min(alone)!r}"
        )
    names = [*map(str, maps.columns)]
    return grid, names, _neurons_first(maps), _neurons_first(result_maps[maps.columns])


def _neurons_first(maps: pd.DataFrame) -> np.ndarray:
    """Maps as an array (neurons, N)."""
    return np.ascontiguousarray(maps.to_numpy().T)


def check_whole(path: Path, grid: Grid) -> None:
    """Check that the operands of a table reach up to `--max-operand`, from which the published scores follow.

    Raises:
        UserError: the largest operand is not one below it.
    """
    whole = int(max(grid.a.max(), grid.b.max())) + 1
    # The published grid of addition ends at 998, so with operands below 1000 it has no 999 either.
    ends_short = grid.kind == "addition" and whole == LARGEST_ANSWER and grid.max_operand == LARGEST_ANSWER + 1
    if grid.max_operand != whole and not ends_short:
        raise UserError(
            f"--max-operand: the published scores follow from it, so {grid.max_operand} does not fit {path}, "
            f"whose largest operand is {whole - 1}; give {whole}"
        )
