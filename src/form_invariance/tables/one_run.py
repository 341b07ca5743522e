"""The check that all input files of a command are of one run."""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations, product
from typing import Any

from form_invariance.errors import UserError
from form_invariance.tables.columns import ALL, CELL
from form_invariance.tables.files import stamp_of
from form_invariance.tables.lineage import KEYS, SETTINGS, Job, OfAnyCell, OfAnyModel, Option, Stamp, name_of

SUFFIXES = (".parquet", ".safetensors", ".json")
StampedFiles = Sequence[tuple[str, Stamp]]


def begin(inputs: Mapping[str, Option], settings: Mapping[str, Any], sizes: Mapping[str, Sequence[int]]) -> Job:
    """The job of a command.

    Args:
        inputs: files by the name of their option.
        settings: values of the options that are not files.
        sizes: circuit sizes by the name of their option.

    Raises:
        UserError: two files, or a file and a setting, are not of one run.
    """
    stamps = {
        name: [(str(path), stamp_of(path)) for path in option.files if path.suffix in SUFFIXES and path.is_file()]
        for name, option in inputs.items()
    }
    # A file without a stamp is damaged, or is not a table; its reader says so.
    stamps = {name: [(path, stamp) for path, stamp in files if "keys" in stamp] for name, files in stamps.items()}
    _check_cells(stamps, {name: option.mark for name, option in inputs.items()})
    job = Job()
    for path, stamp in chain(*stamps.values()):
        job.add_file(path, stamp)
    for name in SETTINGS:
        if settings.get(name) is not None:
            job.add_setting(name, settings[name])
    for name, values in sizes.items():
        job.check_sizes(name, values)
    return job


def _check_cells(stamps: Mapping[str, StampedFiles], marks: Mapping[str, type | None]) -> None:
    """Check that the models, formats and operators of a command's files belong together."""
    of_one_model = [
        file
        for option in stamps
        if marks[option] is not OfAnyModel
        for file in stamps[option]
        if "model" in file[1]["keys"]
    ]
    _check_same("model", of_one_model[:1], *([file] for file in of_one_model))
    by_kind: dict[tuple[str, str], list[tuple[str, Stamp]]] = {}
    for option, files in stamps.items():
        for path, stamp in files:
            by_kind.setdefault((option, stamp["table"]), []).append((path, stamp))
    for (option, _), files in by_kind.items():
        _check_different(files)
        if marks[option] is not OfAnyCell:
            _check_complete(files)
    alone = [files for (option, _), files in by_kind.items() if marks[option] is None and len(files) == 1]
    lists = [files for option, files in stamps.items() if marks[option] is None]
    for key in ("format", "operator"):
        for groups in (alone, lists):
            for files, others in combinations(groups, 2):
                _check_same(key, files, others)


def _check_different(files: StampedFiles) -> None:
    """Check that no two files of one kind have the same keys."""
    paths: dict[str, str] = {}
    for path, stamp in files:
        name = name_of(stamp["table"], stamp["keys"])
        if stamp["keys"] and name in paths:
            raise UserError(f"{paths[name]} and {path} are both {name}; give one of them")
        paths[name] = path


def _check_complete(files: StampedFiles) -> None:
    """Check that there is a file for every combination of the keys that any file of the kind has."""
    names = [name for name in KEYS if name in files[0][1]["keys"]]
    # Not every donor has every target, so a direction counts as one key.
    split = len([name for name in names if name in CELL])
    values = [tuple(stamp["keys"].get(name, "") for name in names) for _, stamp in files]
    cells = {(*value[:split], value[split:]): path for value, (path, _) in zip(values, files, strict=True)}
    for cell in product(*map(dict.fromkeys, zip(*cells, strict=True))):
        if cell not in cells:
            with_value = [[cells[other] for other in cells if other[n] == value] for n, value in enumerate(cell)]
            parts = dict.fromkeys(paths[0] for paths in with_value if len(paths) < len(cells))
            name = name_of(files[0][1]["table"], dict(zip(names, (*cell[:-1], *cell[-1]), strict=True)))
            raise UserError(f"{' and '.join(parts)} are given, but not the {name}; give one of each")


def _check_same(key: str, files: StampedFiles, *several: StampedFiles) -> None:
    """Check that options have files of the same models, formats or operators; one file may have any of them."""
    for others in several:
        first, second = (
            {stamp["keys"][key]: path for path, stamp in each if stamp["keys"].get(key, ALL) != ALL}
            for each in (files, others)
        )
        if not first or not second:
            continue
        missing = [value for value in first if value not in second and (len(others) > 1 or len(first) == 1)]
        missing += [value for value in second if value not in first and (len(files) > 1 or len(second) == 1)]
        for value in missing[:1]:
            (path, paths_by_value) = (first[value], second) if value in first else (second[value], first)
            other_value, other_path = next(iter(paths_by_value.items()))
            raise UserError(
                f"{path} is of the {key} {value}, but {other_path} is of the {key} {other_value}; give files of "
                "one run"
            )
