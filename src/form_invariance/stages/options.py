"""Command-line options that several commands share. This module imports nothing of the stages."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError

_FILE = {"type": Path}
_NUMBER = {"type": int}
_FILES = {"nargs": "+", "metavar": "FORMAT=FILE"}

_OPTIONS: dict[str, dict[str, Any]] = {
    "--operator": {"help": "the operator's name; it also names the seeded choices"},
    "--expression": {"help": "the operator's expression, for instance 'a // b'"},
    "--template": {"help": "prompt with the fields {a} and {b}"},
    "--operand-min": {**_NUMBER, "help": "smallest operand"},
    "--operand-max": {**_NUMBER, "help": "largest operand"},
    "--answer-min": {**_NUMBER, "help": "smallest answer"},
    "--answer-max": {**_NUMBER, "help": "largest answer"},
    "--dataset": {**_FILE, "help": "dataset table of the cell"},
    "--corrupt-table": {**_FILE, "help": "corrupt partners of the cell"},
    "--attribution": {**_FILE, "help": "attribution table of the cell"},
    "--circuit": {**_FILE, "help": "circuit table of the operator"},
    "--mean-cache": {**_FILE, "help": "mean cache of the format"},
    "--effects": {**_FILES, "help": "indirect effects of every format"},
    "--census": {**_FILES, "help": "census tables of the operator"},
    "--rankings": {**_FILES, "help": "ranking tables"},
    "--exclude-train": {**_FILE, "nargs": "+", "help": "datasets whose train pairs are left out, in either order"},
    "--candidates": {**_NUMBER, "help": "neurons per layer that are patched exactly"},
    "--prompts": {**_NUMBER, "help": "prompts in all"},
    "--pairs": {**_NUMBER, "help": "largest number of pairs in each direction"},
    "--random-seeds": {**_NUMBER, "help": "draws of the uniform random control"},
    "--bootstrap": {**_NUMBER, "help": "bootstrap resamples for the intervals"},
    "--seed": {**_NUMBER, "help": "seed of every random choice"},
    "--center-logits": {"action": argparse.BooleanOptionalAction, "help": "centre over the vocabulary"},
    "--k": {**_NUMBER, "help": "circuit size"},
    "--late-from": {"help": "first late layer: half_depth (deduced), onset or a number"},
}
"""Options that mean the same in every command."""

OPERANDS = ("--operand-min", "--operand-max", "--answer-min", "--answer-max")
"""The limits of operands and answers."""


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare some of the shared options; all are required."""
    for name in names:
        parser.add_argument(name, required=True, **_OPTIONS[name])


def add_sizes_argument(parser: argparse.ArgumentParser) -> None:
    """The option that gives several circuit sizes."""
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")


def operand_limits(arguments: argparse.Namespace) -> dict[str, int]:
    """The limits of operands and answers, by name."""
    return settings(arguments, *(name.strip("-").replace("-", "_") for name in OPERANDS))


def settings(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of some options, for a table's provenance."""
    return {name: vars(arguments)[name] for name in names}


def named_values(items: Sequence[str], option: str, what: str = "VALUE") -> dict[str, str]:
    """Read NAME=VALUE items, in order.

    Raises:
        UserError: an item has no name, or a name comes twice.
    """
    values: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option}: {item!r} must have the form NAME={what}")
        if name in values:
            raise UserError(f"{option}: {name!r} is given twice")
        values[name] = value
    return values


def named_paths(items: Sequence[str], option: str) -> dict[str, Path]:
    """Read NAME=PATH items as `named_values` does."""
    return {name: Path(path) for name, path in named_values(items, option, "PATH").items()}


def keyed_paths(items: Sequence[str], option: str, parts: int) -> dict[tuple[str, ...], Path]:
    """Read KEY=PATH items whose key has several parts, such as FORMAT/OPERATOR.

    Raises:
        UserError: an item has no key, or a key of another number of parts.
    """
    paths = {tuple(name.split("/")): path for name, path in named_paths(items, option).items()}
    for key in paths:
        if len(key) != parts:
            raise UserError(f"{option}: the key {'/'.join(key)!r} must have {parts} parts")
    return paths


def add_tokenizer_arguments(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Options that say which model it is; it must be named unless there is a default."""
    parser.add_argument(
        "--model",
        required=default is None,
        default=default,
        help="embedded:NAME, a Hugging Face folder, or a hub id",
    )
    parser.add_argument("--revision", help="hub branch, tag or commit")
    parser.add_argument(
        "--model-files",
        type=Path,
        help="digests of the model's files (command model-files), to check them against",
    )


def add_model_arguments(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Options that say which model runs, and how; a model must be named unless there is a default."""
    add_tokenizer_arguments(parser, default)
    parser.add_argument("--dtype", default="float32", choices=["float32", "tf32", "bfloat16"], help="precision")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU where there is one), or a torch device such as cpu or cuda:0"
    )


def add_late_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say where the late layers begin."""
    add_options(parser, "--late-from")
    parser.add_argument(
        "--probes", nargs="+", default=[], metavar="FORMAT=FILE", help="probe tables, for the onset"
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a run: its model, and where its late layers begin."""
    add_model_arguments(parser)
    add_late_arguments(parser)
