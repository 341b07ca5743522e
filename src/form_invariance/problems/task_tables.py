"""Tasks that are tables: a CSV file with a column for each field of the templates, and one for the answer."""

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pandas as pd

from form_invariance.errors import UserError, one_line
from form_invariance.user_files import read_bytes

NO_OPERAND = -1
"""The second operand of a table's problems, which the number of the row alone identifies."""


_LIST_AS_TEXT = re.compile(
    r"\[.*\]|\{.*\}|\(.*,.*\)|<\w*Array>.*"
    r"|(frozenset|set|deque|array|tensor|\w*Index|dict_(keys|values))\(([\[{(].*)?\)",
    re.DOTALL,
)
"""What a list, a tuple, a set or an array becomes as text, as in a CSV file."""


def is_list_as_text(text: str) -> bool:
    """Whether a text may have been several values.

    >>> [is_list_as_text(text) for text in ("frozenset({'a', 'b'})", "['19' '71']", "19|71", "(sic)")]
    [True, True, False, False]
    """
    return _LIST_AS_TEXT.fullmatch(text.strip()) is not None


def _refuse(path: Path, reason: str) -> NoReturn:
    raise UserError(f"the table {path} cannot be read as CSV in UTF-8: {reason}")


def _records(path: Path, sha256: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """The values of each record, with the line on which it begins; blank lines are left out."""
    try:
        text = read_bytes(path, sha256).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        _refuse(path, one_line(error))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            _refuse(
                path,
                f"the row that begins in line {line} is wrong ({error}); close all quotation marks, and write one "
                'inside others twice, ""',
            )
        if any("\0" in value for value in values):
            _refuse(path, f"line {line} has a NUL character; save the file as text in UTF-8")
        if values and not (len(values) == 1 and values[0].isspace()):
            yield line, values


def _read(path: Path, sha256: str | None = None) -> pd.DataFrame:
    """The values as text, indexed by the line of the file on which each row begins."""
    records = _records(path, sha256)
    _, names = next(records, (0, []))
    if not names:
        _refuse(path, "No columns to parse, the file is empty")
    if len(names) == 1 and (signs := [sign for sign in ";\t|" if sign in names[0]]):
        _refuse(path, f"the columns {names[0]!r} are separated by {signs[0]!r}; separate all values by commas")
    for place, name in enumerate(names, 1):
        if not name or name != name.strip() or set("{}\r\n") & set(name):
            _refuse(
                path,
                f"column {place} has the name {name!r}; a name is not empty, does not begin or end with a space "
                "and has no braces and no line break, and no comma ends a line",
            )
        if name in names[: place - 1]:
            _refuse(path, f"two columns have the name {name!r}; give each column a name of its own")
    rows = {}
    for line, values in records:
        if len(values) != len(names):
            _refuse(
                path,
                f"the number of values in line {line} is {len(values)}, but that of the columns is {len(names)}; "
                "put a value that has a comma in quotation marks",
            )
        rows[line] = values
    return pd.DataFrame(rows.values(), columns=names, index=list(rows), dtype=object)


def _is_text(value: str) -> bool:
    """Whether a value has text, and nothing invisible before or after it."""
    return bool(value) and value == value.strip() and "Cf" not in map(unicodedata.category, (value[0], value[-1]))


def first_fields(path: Path) -> dict[str, str]:
    """The first row of a table, by column.

    Raises:
        UserError: the file cannot be read, or has no row.
    """
    table = _read(path)
    if table.empty:
        _refuse(path, "it has no row below the names of its columns")
    return dict(table.iloc[0])


def lines_of(path: Path) -> list[int]:
    """The line of the file on which each row of a table begins.

    Raises:
        UserError: the file cannot be read.
    """
    return _read(path).index.tolist()


def read_task_table(path: Path, answer: str, sha256: str | None = None) -> pd.DataFrame:
    """The problems of a table.

    Args:
        answer: the column of the answers. All others are fields.
        sha256: of the file that is meant, if that is known.

    Returns:
        Columns a (number of the row, from 0), b (`NO_OPERAND`), answer (number of the distinct answer, from 0),
        target (the answer's text), fields (JSON: the text of every field by name).

    Raises:
        UserError: the file cannot be read, is not the one that is meant, has no such column or no other one, has
            an empty cell or several answers in a cell, states a problem twice, or has fewer than two distinct
            answers.
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
    several = table[answer][table[answer].map(is_list_as_text)]
    if len(several):
        raise UserError(
            f"the table {path}: column {answer!r} in line {several.index[0]} has several answers "
            f"({several.iloc[0]!a}); write one, because a row has one answer"
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
