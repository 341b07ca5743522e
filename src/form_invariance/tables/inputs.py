"""The tables that a figure, an answer or a page is made from: files in any order, recognised by their kind."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.tables.columns import Schema
from form_invariance.tables.files import provenance_of, read_table
from form_invariance.tables.keys import keys_of

Paths = Mapping[str, Sequence[Path]]
"""Files by the name of an input."""


def input_paths(
    paths: Sequence[Path], inputs: Mapping[str, Schema], of: str, *, optional: Container[str] = ()
) -> Paths:
    """The files of each input, in order.

    Args:
        of: what needs them, for messages, for instance ``this figure needs``.
        optional: inputs that are left out if they have no file.

    Raises:
        UserError: a file is of another kind, or an input that is not optional has no file.
    """
    names = {schema.name: name for name, schema in inputs.items()}
    files: dict[str, list[Path]] = {name: [] for name in inputs}
    for path in paths:
        kind = str(provenance_of(path).get("table"))
        if kind not in names:
            raise UserError(f"--tables: {path} is a table of {kind}; {of} {', '.join(names)}")
        files[names[kind]].append(path)
    missing = [inputs[name].name for name in inputs if not files[name] and name not in optional]
    if missing:
        raise UserError(f"--tables: there is no table of {missing[0]}; {of} {', '.join(names)}")
    return {name: input_files for name, input_files in files.items() if input_files}


def read_inputs(paths: Paths, inputs: Mapping[str, Schema]) -> dict[str, pd.DataFrame]:
    """Read the tables of each input that has files, with the columns of their keys, in the order of the files."""
    frames = {
        name: [read_table(path, schema).assign(**keys_of(path)) for path in paths[name]]
        for name, schema in inputs.items()
        if name in paths
    }
    return {name: pd.concat(tables, ignore_index=True) for name, tables in frames.items()}
