"""Tables that a command is given as NAME/KEY=PATH, read into one tidy frame for each name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.tables.columns import Schema
from form_invariance.tables.files import read_table


@dataclass(frozen=True)
class Input:
    """Tables of one kind, and the key columns that tell them apart."""

    schema: Schema
    keys: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    """The figures that need it; empty: every figure of the stage."""


def read_inputs(items: Sequence[str], inputs: Mapping[str, Input]) -> dict[str, pd.DataFrame]:
    """Read INPUT/KEY/...=PATH items: one table for each input, with its key columns, in the order of the items.

    Raises:
        UserError: an item is not of this form, a table is missing, or one is given twice.
    """
    paths: dict[str, dict[tuple[str, ...], Path]] = {name: {} for name in inputs}
    for item in items:
        names, _, path = item.partition("=")
        name, *key = names.split("/")
        if name not in inputs:
            raise UserError(f"--tables: {name!r} is not an input of this figure; these are {', '.join(inputs)}")
        if not path or len(key) != len(inputs[name].keys) or "" in key:
            form = "/".join([name, *map(str.upper, inputs[name].keys)])
            raise UserError(f"--tables: {item!r} must have the form {form}=FILE")
        if tuple(key) in paths[name]:
            raise UserError(f"--tables: {names!r} is given twice")
        paths[name][tuple(key)] = Path(path)
    _check_complete(paths, inputs)
    return {
        name: pd.concat(
            [
                read_table(path, one.schema).assign(**dict(zip(one.keys, key, strict=True)))
                for key, path in paths[name].items()
            ],
            ignore_index=True,
        )
        for name, one in inputs.items()
    }


def _check_complete(paths: Mapping[str, Mapping[tuple[str, ...], Path]], inputs: Mapping[str, Input]) -> None:
    """Check that each input has a table for every combination of the keys that any input names.

    Raises:
        UserError: naming the first table that is missing.
    """
    values: dict[str, dict[str, None]] = {}
    for name, one in inputs.items():
        for key in paths[name]:
            for column, value in zip(one.keys, key, strict=True):
                values.setdefault(column, {})[value] = None
    for name, one in inputs.items():
        for key in product(*(values.get(column, [column.upper()]) for column in one.keys)):
            if key not in paths[name]:
                each = f"one for each {' and '.join(one.keys)}" if one.keys else "one"
                raise UserError(f"--tables: {'/'.join([name, *key])!r} is missing; {name} needs {each}")
