"""Checks of the tables that the library is given: a cell is used for what it is, or refused with its row."""

import operator
import re
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.task_tables import is_list_as_text

_FLOAT = float | np.floating
_EXACT = 2**53
"""A float of this size may have been another whole number."""
_SHOWN = 60
"""Characters of a value in a message."""


def shown(value: object) -> str:
    """A value in a message: on one line, and not long."""
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def whole(value: object) -> int | None:
    """A whole number that is given as one, as a float (3.0) or as text ("3"); None if it is none of these."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, str):
        return int(value.partition(".")[0]) if re.fullmatch(r"-?[0-9]{1,18}(\.0*)?", value) else None
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else None
    if isinstance(value, _FLOAT):
        return int(value) if abs(float(value)) < _EXACT and float(value).is_integer() else None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def names_of(table: object, argument: str) -> list[str]:
    """The names of a table's columns, as text.

    Args:
        argument: what the table was given as, for messages.

    Raises:
        UserError: it is no table.
    """
    if not isinstance(table, pd.DataFrame):
        raise UserError(f"{argument}: give a table (pandas.DataFrame), not a value of type {type(table).__name__}")
    return [str(name) for name in table.columns]


def column(table: pd.DataFrame, name: str, argument: str) -> pd.Series:
    """A column of a table.

    Raises:
        UserError: there is none of this name, or two, or `table` is no table.
    """
    names = names_of(table, argument)
    if names.count(str(name)) > 1:
        raise UserError(f"{argument}: two columns are called {str(name)!r}; remove one, or rename it")
    if str(name) not in names:
        raise UserError(
            f"{argument}: there is no column {shown(name)}; the table has {', '.join(names) or 'none'}"
        )
    return table.iloc[:, names.index(str(name))]


def refusal(table: pd.DataFrame, row: int, argument: str, rule: str) -> UserError:
    """The error about a row, which is named by its place and, where that is another, by its label."""
    label = table.index[row]
    named = "" if str(label) == str(row) else f" (index {shown(label)})"
    return UserError(f"{argument}: row {row}{named} {rule}")


def whole_numbers(table: pd.DataFrame, name: str, argument: str) -> np.ndarray:
    """A column of whole numbers, (rows,): int64, or Python's where numpy's may be too small.

    Raises:
        UserError: a cell is no whole number.
    """
    values = column(table, name, argument)
    if isinstance(values.dtype, np.dtype) and values.dtype.kind == "i":
        return values.to_numpy(np.int64)
    found = [whole(value) for value in values.tolist()]
    if None in found:
        row = found.index(None)
        raise refusal(table, row, argument, f"has {shown(values.iloc[row])} as {name}; give a whole number")
    return np.array(found, dtype=object)


def _is_list(cell: Any) -> bool:
    """Whether a cell has several values, in an order."""
    return isinstance(cell, list | tuple) or (isinstance(cell, np.ndarray) and cell.ndim == 1)


def lists_of_numbers(table: pd.DataFrame, name: str, argument: str) -> list[list[int] | None]:
    """A column of lists of whole numbers, or of their text as a CSV file has it; None where a cell has nothing.

    Raises:
        UserError: a cell has another value.
    """
    found: list[list[int] | None] = []
    for row, cell in enumerate(column(table, name, argument).tolist()):
        if pd.api.types.is_scalar(cell) and pd.isna(cell):
            found.append(None)
            continue
        text = re.fullmatch(r"[\[(]([^\[\]()]*)[\])]", cell.strip()) if isinstance(cell, str) else None
        values = re.split(r"[,\s]+", text[1].strip(", ")) if text else cell if _is_list(cell) else [None]
        numbers = [number for value in values if (number := whole(value)) is not None]
        if not numbers or len(numbers) < len(values):
            raise refusal(table, row, argument, f"has {shown(cell)} as {name}; give a list of whole numbers")
        found.append(numbers)
    return found


def lists_of_answers(table: pd.DataFrame, name: str, argument: str) -> tuple[list[str], list[int]]:
    """All answers of a column as `texts`, whose cells have one or a list of several, and how many each cell has.

    Raises:
        UserError: a cell has no answer, a set, an answer that is not text, or text that may have been a list.
    """
    cells = column(table, name, argument)
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and is_list_as_text(cell):
            rule = f"has the text {shown(cell)} in column {str(name)!r}, which may be a list from a file"
            advice = "give a list of the accepted answers, or, if this text is the answer, [text]"
            raise refusal(table, row, argument, f"{rule}; {advice}")
        if fault := next(filter(None, map(_fault, cell if _is_list(cell) and len(cell) else [cell])), None):
            rule = f"has {fault} in column {str(name)!r}; give text, a number, or a list of these"
            raise refusal(table, row, argument, f"{rule} (a set has no order)")
    # One row for each answer, under the label of its row.
    answers = texts(cells.to_frame(str(name)).explode(str(name)), name, argument)
    return answers, [len(cell) if _is_list(cell) else 1 for cell in cells]


def texts(table: pd.DataFrame, name: str, argument: str) -> list[str]:
    """A column as text.

    A gap in a column makes floats of its whole numbers: where all floats are whole, 12.0 is written as 12.

    Raises:
        UserError: a cell is empty, or neither text nor a number nor a date.
    """
    values = column(table, name, argument)
    cells = list((values.astype(str) if values.dtype.kind == "M" else values).array)
    for row, fault in enumerate(map(_fault, cells)):
        if fault:
            raise refusal(table, row, argument, f"has {fault} in column {str(name)!r}; give text or a number")
    integral = all(whole(cell) is not None for cell in cells if isinstance(cell, _FLOAT | Decimal))
    return [str(int(cell) if integral and isinstance(cell, _FLOAT | Decimal) else cell) for cell in cells]


def _fault(cell: Any) -> str | None:
    """What makes a cell no text."""
    if isinstance(cell, Decimal):
        return None if cell.is_finite() else shown(cell)
    if (pd.api.types.is_scalar(cell) and pd.isna(cell)) or (isinstance(cell, str) and not cell.strip()):
        return "nothing"
    if not isinstance(cell, str | Real | np.bool_ | date):
        return shown(cell)
    if isinstance(cell, _FLOAT) and not abs(float(cell)) < _EXACT:
        return f"{cell}, of which digits are lost,"
    return None
