"""Checks of the tables that a user passes: a cell is read without a guess, or refused with its row."""

from datetime import datetime, time
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.errors import UserError

_EXACT = 2**53
"""A float this large may be the rounding of another whole number."""
_FLOATS = (float, np.floating)
_SHOWN = 60
"""Characters of a value in a message."""


def shown(value: object) -> str:
    """A value in a message: on one line, and not long."""
    text = " ".join(repr(value.item() if isinstance(value, np.generic) else value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def whole(value: Any) -> int | None:
    """A whole number that is given as one, as a float (3.0) or as text ("3"); else None."""
    try:
        number = float("nan" if isinstance(value, bool | np.bool_) else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return int(number) if number.is_integer() and abs(number) < _EXACT else None


def names_of(table: object, argument: str) -> list[str]:
    """The names of a table's columns, as text; messages name the table by `argument`."""
    if not isinstance(table, pd.DataFrame):
        raise UserError(f"{argument}: give a table (pandas.DataFrame), not a value of type {type(table).__name__}")
    return [str(name) for name in table.columns]


def column(table: pd.DataFrame, name: str, argument: str) -> list[Any]:
    """The cells of a column."""
    names = names_of(table, argument)
    if names.count(str(name)) > 1:
        raise UserError(f"{argument}: two columns are called {str(name)!r}; remove one, or rename it")
    if str(name) not in names:
        raise UserError(
            f"{argument}: there is no column {shown(name)}; the table has {', '.join(names) or 'none'}"
        )
    return list(table.iloc[:, names.index(str(name))].array)


def refusal(table: pd.DataFrame, row: int, argument: str, rule: str) -> UserError:
    """The error about a row, which names its position and, if that differs, its label in the index."""
    label = table.index[row]
    named = "" if str(label) == str(row) else f" (index {shown(label)})"
    return UserError(f"{argument}: row {row}{named} {rule}")


def whole_numbers(table: pd.DataFrame, name: str, argument: str) -> np.ndarray:
    """A column of whole numbers, (rows,) int64."""
    cells = column(table, name, argument)
    numbers = list(map(whole, cells))
    if None in numbers:
        row = numbers.index(None)
        raise refusal(table, row, argument, f"has {shown(cells[row])} as {name}; give a whole number")
    return np.array(numbers, dtype=np.int64)


def _is_list(cell: object) -> bool:
    return isinstance(cell, list | tuple | np.ndarray)


def _is_missing(cell: Any) -> bool:
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def lists_of_numbers(table: pd.DataFrame, name: str, argument: str) -> list[list[int] | None]:
    """A column of lists of whole numbers, or of their text as a CSV file has it; None where a cell has nothing."""
    lists: list[list[int] | None] = []
    for row, cell in enumerate(column(table, name, argument)):
        if _is_missing(cell):
            lists.append(None)
            continue
        text = cell.strip("[]()").replace(",", " ").split() if isinstance(cell, str) else [None]
        numbers = list(map(whole, cell if _is_list(cell) else text))
        if not numbers or None in numbers:
            raise refusal(table, row, argument, f"has {shown(cell)} as {name}; give a list of whole numbers")
        lists.append([number for number in numbers if number is not None])
    return lists


def lists_of_texts(table: pd.DataFrame, name: str, argument: str) -> list[list[str]]:
    """A column as text: the text of each cell, or of each value in a cell with a list.

    A gap in a column makes floats of its whole numbers: if all floats are whole, 12.0 is written as 12. pandas
    adds a time to every date that it reads: if all times are midnight, only the dates are written.
    """
    cells = column(table, name, argument)
    several = [list(cell) if _is_list(cell) else [cell] for cell in cells]
    for row, values in enumerate(several):
        if not values or not all(map(_is_text, values)):
            rule = f"has {shown(cells[row])} in column {str(name)!r}; give text, a number, or a list of these"
            raise refusal(table, row, argument, rule)
        if any(map(_is_rounded, values)):
            rule = f"has {shown(cells[row])} in column {str(name)!r}, a float that may have been rounded"
            raise refusal(table, row, argument, f"{rule}; read the file with dtype=str, which keeps all digits")
    flat = [value for values in several for value in values]
    integral = all(float(value).is_integer() for value in flat if isinstance(value, _FLOATS))
    dates = all(value.timetz() == time() for value in flat if isinstance(value, datetime))

    def text(value: Any) -> str:
        if integral and isinstance(value, _FLOATS):
            return str(int(value))
        return str(value.date() if dates and isinstance(value, datetime) else value)

    return [list(map(text, values)) for values in several]


def texts(table: pd.DataFrame, name: str, argument: str) -> list[str]:
    """A column as text, as in `lists_of_texts`; a list is refused."""
    for row, cell in enumerate(column(table, name, argument)):
        if _is_list(cell):
            raise refusal(
                table, row, argument, f"has {shown(cell)} in column {str(name)!r}; give text or a number"
            )
    return [text for (text,) in lists_of_texts(table, name, argument)]


def _is_rounded(value: Any) -> bool:
    """Whether a float is so large that other whole numbers round to it."""
    return isinstance(value, _FLOATS) and abs(value) >= 2 ** (np.finfo(type(value)).nmant + 1)


def _is_text(value: Any) -> bool:
    """Whether a value can be written into a prompt."""
    if not pd.api.types.is_scalar(value) or isinstance(value, bytes) or _is_missing(value):
        return False
    return np.isfinite(value) if isinstance(value, _FLOATS) else bool(str(value).strip())
