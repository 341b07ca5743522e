"""Tables that a command is given as NAME/KEY=PATH, read into one tidy frame for each name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.tables.columns import Schema
from form_invariance.tables.files import read_table
from form_invariance.tables.keyed import keyed_values


@dataclass(frozen=True)
class Input:
    """Tables of one kind, and the key columns that tell them apart."""

    schema: Schema
    keys: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    """The figures that need it; empty: every figure of the stage."""


Paths = Mapping[str, Mapping[tuple[str, ...], Path]]
"""By input and key."""


def input_paths(items: Sequence[str], inputs: Mapping[str, Input], of: str) -> Paths:
    """Read INPUT/KEY/...=PATH items, in order.

    Args:
        of: what the inputs are of, for messages.

    Raises:
        UserError: an item is not of this form, names no input, or is given twice.
    """
    given: dict[str, list[str]] = {name: [] for name in inputs}
    for item in items:
        name = re.split("[/=]", item)[0]
        if name not in inputs:
            raise UserError(f"--tables: {name!r} is not an input of {of}; these are {', '.join(inputs)}")
        given[name].append(item)
    forms = {name: "/".join([name, *map(str.upper, one.keys)]) + "=FILE" for name, one in inputs.items()}
    return {
        name: {key[1:]: Path(path) for key, path in keyed_values(own, "--tables", forms[name]).items()}
        for name, own in given.items()
    }


def read_inputs(paths: Paths, inputs: Mapping[str, Input]) -> dict[str, pd.DataFrame]:
    """Read one table for each input, with its key columns, in the order of the paths.

    Raises:
        UserError: a table is missing.
    """
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


def _check_complete(paths: Paths, inputs: Mapping[str, Input]) -> None:
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
