"""Activation maps from a table: one row a pair, one column a neuron."""

from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.heuristics.pairs import KINDS, LARGEST_ANSWER, Grid
from form_invariance.operands import evaluate

_PAIR = ["op1", "op2", "result"]


def read_maps(path: Path, kind: str, max_operand: int) -> tuple[Grid, np.ndarray]:
    """Read the pairs and the maps (neurons, N) of a table with the columns op1, op2, result and the neurons'.

    Raises:
        UserError: the file is missing or no Parquet table, a column lacks, a pair is out of range or has
            another result than the operator gives, or an activation is not a finite number.
    """
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a Parquet table ({str(error).splitlines()[0]})") from None
    if list(table.columns[:3]) != _PAIR or len(table.columns) < 4 or not len(table):
        raise UserError(f"{path} must have the columns op1, op2, result, then one column a neuron, and rows")
    try:
        pairs = table[_PAIR].to_numpy().T
        maps = np.ascontiguousarray(table.iloc[:, 3:].to_numpy(dtype=np.float32).T)
        if (pairs != np.floor(pairs)).any():
            raise ValueError
    except (TypeError, ValueError):
        raise UserError(f"{path}: op1, op2 and result must be whole numbers, activations numbers") from None
    a, b, answer = pairs.astype(np.int64)
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= max_operand:
        raise UserError(f"{path}: operands must be in 0..{max_operand - 1}; give the right --max-operand")
    if answer.min() < 0 or answer.max() > LARGEST_ANSWER:
        raise UserError(f"{path}: results must be in 0..{LARGEST_ANSWER}")
    expression = next((text for text, name in KINDS.items() if name == kind), None)
    if expression and not np.array_equal(evaluate(expression, a, b)[0], answer):
        raise UserError(
            f"{path}: result is not {expression} of op1 and op2 in every row; give the right --operator"
        )
    if not np.isfinite(maps).all():
        raise UserError(f"{path}: activations must be finite numbers")
    return Grid(a, b, answer, kind, max_operand), maps
