"""Command-line options that several commands share. This module imports nothing of the stages."""

import argparse
from pathlib import Path
from typing import Any

_FILE = {"type": Path}
_NUMBER = {"type": int}
_FILES = {"type": Path, "nargs": "+"}

_OPTIONS: dict[str, dict[str, Any]] = {
    "--operator": {"help": "the operator's name; it also names the seeded choices"},
    "--expression": {"help": "the operator's expression, for instance 'a // b'"},
    "--template": {"help": "prompt with the fields {a} and {b}, or those of the table"},
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
    "--membership": {
        "choices": ("positive", "top_k"),
        "help": "which neurons of the top k are members of its set",
    },
    "--census": {**_FILES, "help": "census tables of the operator"},
    "--rankings": {**_FILES, "help": "ranking tables"},
    "--exclude-train": {**_FILE, "nargs": "+", "help": "datasets whose train pairs are left out, in either order"},
    "--candidates": {**_NUMBER, "help": "neurons per layer that are patched exactly"},
    "--pairs": {**_NUMBER, "help": "largest number of pairs in each direction"},
    "--random-seeds": {**_NUMBER, "help": "draws of the uniform random control"},
    "--matched-seeds": {**_NUMBER, "help": "draws of each matched control"},
    "--bootstrap": {**_NUMBER, "help": "bootstrap resamples for the intervals"},
    "--seed": {**_NUMBER, "help": "seed of every random choice"},
    "--center-logits": {"action": argparse.BooleanOptionalAction, "help": "centre over the vocabulary"},
    "--k": {**_NUMBER, "help": "circuit size"},
    "--late-from": {"help": "first late layer: half_depth (deduced) or a number"},
}
"""Options that mean the same in every command."""

OPERANDS = ("--operand-min", "--operand-max", "--answer-min", "--answer-max")
"""The limits of operands and answers."""


def add_options(parser: argparse.ArgumentParser, *names: str, **files: str) -> None:
    """Declare required options: some of the shared ones, then files or folders by name with their help."""
    for name in names:
        parser.add_argument(name, required=True, **_OPTIONS[name])
    add_required(parser, Path, **files)


def add_optional(parser: argparse.ArgumentParser, *names: str) -> None:
    """Declare some of the shared options as optional ones."""
    for name in names:
        parser.add_argument(name, **_OPTIONS[name])


def add_required(parser: argparse.ArgumentParser, kind: type, nargs: str | None = None, **options: str) -> None:
    """Declare required options of one type by name with their help."""
    for name, text in options.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, nargs=nargs, required=True, help=text)


def add_files(parser: argparse.ArgumentParser, name: str, text: str, required: bool = True) -> None:
    """Declare an option of files; [] where it is left out."""
    nargs = "+" if required else "*"
    parser.add_argument(name, type=Path, nargs=nargs, required=required, default=[], help=text)


def _attribute(option: str) -> str:
    """The name that the value of an option has among the arguments."""
    return option.strip("-").replace("-", "_")


def operand_limits(arguments: argparse.Namespace) -> dict[str, int]:
    """The limits of operands and answers, by name."""
    return settings(arguments, *map(_attribute, OPERANDS))


def settings(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of some options, for a table's provenance."""
    return {name: vars(arguments)[name] for name in names}


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
        "--readout",
        default="near",
        choices=["near", "full"],
        help="how a patch's log-probabilities are read out: full sums the whole vocabulary each time",
    )
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU where there is one), or a torch device such as cpu or cuda:0"
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a run: its model, and where its late layers begin."""
    add_model_arguments(parser)
    add_options(parser, "--late-from")
