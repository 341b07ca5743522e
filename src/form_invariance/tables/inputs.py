"""The tables that a figure, an answer or a page is made from: files in any order, told apart by their kind."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.tables.columns import Schema
from form_invariance.tables.files import provenance_of, read_table
from form_invariance.tables.keys import keys_of

Paths = Mapping[str, Sequence[Path]]
"""Files by the name of an input."""


def input_paths(paths: Sequence[Path], inputs: Mapping[str, Schema], of: str) -> Paths:
    """The files of each input, in order.

    Args:
        of: what needs them, for messages, for instance ``this figure needs``.

    Raises:
        UserError: a file is of another kind or given twice, or an input has no file.
    """
    names = {schema.name: name for name, schema in inputs.items()}
    given: dict[str, list[Path]] = {name: [] for name in inputs}
    for path in paths:
        kind = str(provenance_of(path).get("table"))
        if kind not in names:
            raise UserError(f"--tables: {path} is a table of {kind}; {of} {', '.join(names)}")
        if path in given[names[kind]]:
            raise UserError(f"--tables: {path} is given twice")
        given[names[kind]].append(path)
    if missing := [inputs[name].name for name, own in given.items() if not own]:
        raise UserError(f"--tables: there is no table of {missing[0]}; {of} {', '.join(names)}")
    return given


def read_inputs(paths: Paths, inputs: Mapping[str, Schema]) -> dict[str, pd.DataFrame]:
    """Read one table for each input, with the columns of its keys, in the order of the files.

    Raises:
        UserError: a table is missing.
    """
    keys = {name: list(map(keys_of, paths[name])) for name in inputs}
    for name, schema in inputs.items():
        _check_complete(keys[name], schema)
    frames = {
        name: [read_table(path, schema).assign(**own) for path, own in zip(paths[name], keys[name], strict=True)]
        for name, schema in inputs.items()
    }
    return {name: pd.concat(own, ignore_index=True) for name, own in frames.items()}


def _check_complete(keys: Sequence[Mapping[str, str]], schema: Schema) -> None:
    """Check that there is a table for every combination of the keys that any table has.

    Raises:
        UserError: naming the first table that is missing.
    """
    found = [tuple(own[name] for name in schema.keys) for own in keys]
    for key in product(*(dict.fromkeys(values) for values in zip(*found, strict=True))):
        if key not in found:
            raise UserError(f"--tables: the table {schema.name} of {'/'.join(key)} is missing; give one of each")
