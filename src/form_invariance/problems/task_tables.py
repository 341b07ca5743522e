"""Tasks that are tables: a CSV file with a column for each field of the templates and a column for the answer."""

import csv
import io
import json
import unicodedata
from pathlib import Path
from typing import NoReturn

import pandas as pd

from form_invariance.errors import UserError, one_line
from form_invariance.user_files import read_bytes

NO_OPERAND = -1
"""The second operand of a table's problems, which the number of the row alone identifies."""

_ODD_SPACES = "\u00a0\u2007\u202f\u200b\u2060\ufeff"
"""No-break and zero-width spaces."""
_SHOWN = 5
"""Lines that a warning names."""


def _refuse(path: Path, reason: str) -> NoReturn:
    raise UserError(f"the table {path} cannot be read as CSV in UTF-8: {reason}")


def _read(path: Path, sha256: str | None = None) -> pd.DataFrame:
    """The values as text, indexed by the line of the file on which each row ends; blank rows are left out."""
    rows: dict[int, list[str]] = {}
    try:
        reader = csv.reader(io.StringIO(read_bytes(path, sha256).decode("utf-8-sig"), newline=""), strict=True)
        for row in reader:
            if "".join(row).strip():
                rows[reader.line_num] = row
    except FileNotFoundError:
        raise UserError(f"the table {path} does not exist; a relative path starts in {Path.cwd()}") from None
    except (OSError, ValueError) as error:
        _refuse(path, one_line(error))
    except csv.Error as error:
        advice = 'close all quotation marks, and write one inside others twice, ""'
        _refuse(path, f"the row after line {max(rows, default=0)} is wrong ({error}); {advice}")
    if len(rows) < 2:
        _refuse(path, "it must have the names of its columns and rows below them")
    names, *values = rows.values()
    if len(names) == 1 and (signs := [sign for sign in ";\t|" if sign in names[0]]):
        _refuse(path, f"the columns {names[0]!r} are separated by {signs[0]!r}; separate all values by commas")
    for number, name in enumerate(names, 1):
        if not name or name != name.strip() or set("{}\r\n") & set(name) or name in names[: number - 1]:
            _refuse(
                path,
                f"column {number} has the name {name!r}; a name is not empty nor that of another column, does not "
                "begin or end with a space and has no braces and no line break, and no comma ends a line",
            )
    for line, row in rows.items():
        if len(row) != len(names):
            _refuse(
                path,
                f"the number of values in line {line} is {len(row)}, but that of the columns is {len(names)}; "
                "put a value that has a comma in quotation marks",
            )
    return pd.DataFrame(values, columns=names, index=[*rows][1:], dtype=object)


def _is_text(value: str) -> bool:
    """Whether a value has text, and nothing invisible before or after it."""
    return bool(value) and value == value.strip() and "Cf" not in map(unicodedata.category, (value[0], value[-1]))


def first_fields(path: Path) -> dict[str, str]:
    """The first row of a table, by column."""
    return dict(_read(path).iloc[0])


def odd_spaces(path: Path) -> list[str]:
    """A sentence for each column with no-break or zero-width spaces: they are invisible, and other tokens."""
    sentences = []
    for name, values in _read(path).items():
        odd = values[values.str.contains(f"[{_ODD_SPACES}]")]
        if len(odd):
            lines = ", ".join(map(str, odd.index[:_SHOWN]))
            more = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
            sentences.append(
                f"the table {path}: column {name!r} has a no-break or zero-width space in lines {lines}{more} "
                f"({odd.iloc[0]!a}); if it is not meant, write a plain space or none"
            )
    return sentences


def read_task_table(path: Path, answer: str, sha256: str | None = None) -> pd.DataFrame:
    """The problems of a table.

    Args:
        answer: the column of the answers. All others are fields.
        sha256: digest of the file that is meant, if it is known.

    Returns:
        Columns a (number of the row, from 0), b (`NO_OPERAND`), answer (number of the distinct answer, from 0),
        target (the answer's text), fields (JSON: the text of every field by name).
    """
    table = _read(path, sha256)
    names = [name for name in table.columns if name != answer]
    if answer not in table.columns or not names:
        raise UserError(
            f"the table {path} has the columns {', '.join(table.columns)}; it must have the column {answer!r}, "
            "with the answers, and at least one other, which is a field of the templates; {table: FILE, answer: "
            "COLUMN} names another column of answers"
        )
    for name in table.columns:
        odd = table[name][~table[name].map(_is_text)]
        if len(odd):
            raise UserError(
                f"the table {path}: column {name!r} in line {odd.index[0]} is empty, or begins or ends with a "
                f"space or an invisible character ({odd.iloc[0]!a}); write the text alone"
            )
    again = table.index[table.duplicated(names)]
    if len(again):
        raise UserError(f"the table {path}: line {again[0]} states a problem of an earlier line; remove it")
    number, distinct = pd.factorize(table[answer])
    if len(distinct) < 2:
        raise UserError(f"the table {path} needs at least two distinct answers, but has {len(distinct)}")
    return pd.DataFrame(
        {
            "a": range(len(table)),
            "b": NO_OPERAND,
            "answer": number,
            "target": table[answer].tolist(),
            "fields": [json.dumps(row, ensure_ascii=False) for row in table[names].to_dict("records")],
        }
    )
