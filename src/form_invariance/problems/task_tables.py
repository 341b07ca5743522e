"""Tasks that are tables: a CSV file with a column for each field of the templates, and one for the answer."""

import json
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError, one_line

NO_OPERAND = -1
"""Takes the place of the second operand: a table's problems are told apart by the number of their row alone."""


def _read(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"the table {path} cannot be read as CSV in UTF-8: {one_line(error)}") from None


def first_fields(path: Path) -> dict[str, str]:
    """The first row of a table, by column.

    Raises:
        UserError: the file cannot be read.
    """
    return dict(_read(path).iloc[0])


def read_task_table(path: Path, answer: str) -> pd.DataFrame:
    """The problems of a table.

    Args:
        answer: the column of the answers. All others are fields.

    Returns:
        Columns a (number of the row, from 0), b (`NO_OPERAND`), answer (number of the distinct answer, from 0),
        target (the answer's text), fields (JSON: the text of every field by name).

    Raises:
        UserError: the file cannot be read, has no such column or no other one, has an empty cell, states a problem
            twice, or has fewer than two distinct answers.
    """
    table = _read(path)
    names = [name for name in table.columns if name != answer]
    if answer not in table.columns or not names:
        raise UserError(
            f"the table {path} has the columns {', '.join(table.columns)}; it must have the column {answer!r}, "
            "with the answers, and at least one other, which is a field of the templates"
        )
    for name in table.columns:
        empty = table.index[table[name].isna() | (table[name].str.strip() != table[name]) | (table[name] == "")]
        if len(empty):
            raise UserError(
                f"the table {path}: column {name!r} in line {empty[0] + 2} is empty, or begins or ends with a "
                "space; write the text alone"
            )
    again = table.index[table.duplicated(names)]
    if len(again):
        raise UserError(f"the table {path}: line {again[0] + 2} states a problem of an earlier line; remove it")
    number, distinct = pd.factorize(table[answer])
    if len(distinct) < 2:
        raise UserError(f"the table {path} needs at least two distinct answers, but has {len(distinct)}")
    return pd.DataFrame(
        {
            "a": range(len(table)),
            "b": NO_OPERAND,
            "answer": number,
            "target": table[answer],
            "fields": [json.dumps(row, ensure_ascii=False) for row in table[names].to_dict("records")],
        }
    )
