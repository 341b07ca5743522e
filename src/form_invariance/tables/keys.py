"""The keys of files: the names of the model, format and operator to which a table or a file of tensors belongs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.tables.files import provenance_of

CellKey = tuple[str, str]
"""The format and the operator of a cell."""


def keys_of(path: Path) -> dict[str, str]:
    """The keys of a file."""
    keys: dict[str, str] = provenance_of(path).get("keys", {})
    return keys


def common_keys(*paths: Path) -> dict[str, str]:
    """The keys that all files have with the same value."""
    first, *others = map(keys_of, paths)
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def by_key(paths: Iterable[Path], *names: str) -> dict[Any, Path]:
    """Files by one of their keys, or by tuples of several, in order; the other keys are the same in all of them.

    Raises:
        UserError: a file does not have a key, two files have the same keys, or files differ in another key.
    """
    files: dict[Any, Path] = {}
    keys: dict[Path, dict[str, str]] = {}
    for path in paths:
        file_keys = keys[path] = keys_of(path)
        if missing := [name for name in names if name not in file_keys]:
            raise UserError(f"{path} does not say its {missing[0]}; delete it and run snakemake again")
        values = tuple(file_keys[name] for name in names)
        key = values if names[1:] else values[0]
        if key in files:
            raise UserError(f"{path} and {files[key]} are both of {'/'.join(values)}; give one file of each")
        files[key] = path
    for name in sorted(set().union(*keys.values()) - set(names)):
        _check_same(name, keys)
    return files


def _check_same(name: str, keys: Mapping[Path, Mapping[str, str]]) -> None:
    first, *others = keys
    for other in others:
        if keys[other].get(name) != keys[first].get(name):
            raise UserError(f"{first} and {other} are not of the same {name}; give files of one {name}")


def by_cell(paths: Iterable[Path]) -> dict[CellKey, Path]:
    """Files by format and operator; the errors are those of `by_key`."""
    return by_key(paths, "format", "operator")


def matching_cells(**options: Iterable[Path]) -> list[dict[CellKey, Path]]:
    """The files of some options of a command, by format and operator.

    Raises:
        UserError: as `by_key`, or an option does not have the cells of the first one.
    """
    (name, first), *others = (
        (f"--{option.replace('_', '-')}", by_cell(paths)) for option, paths in options.items()
    )
    for option, other in others:
        if other.keys() != first.keys():
            raise UserError(f"{option} must have a file for each cell of {name} and no other")
    return [first, *(other for _, other in others)]
