"""Command-line options that several commands share."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from form_invariance.errors import UserError

if TYPE_CHECKING:
    import torch

    from form_invariance.model.decoder import Decoder
    from form_invariance.problems.operands import OperandRange
    from form_invariance.problems.prompts import PromptTokenizer
    from form_invariance.stages.overlap.compute import Effects


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


def add_operand_arguments(parser: argparse.ArgumentParser) -> None:
    """The limits of operands and answers."""
    parser.add_argument("--operand-min", type=int, default=6, help="smallest operand (deduced)")
    parser.add_argument("--operand-max", type=int, default=999, help="largest operand (deduced)")
    parser.add_argument("--answer-min", type=int, default=3, help="smallest answer (deduced)")
    parser.add_argument("--answer-max", type=int, default=999, help="largest answer (deduced)")


def operand_range(arguments: argparse.Namespace) -> "OperandRange":
    """The limits that the options name."""
    from form_invariance.problems.operands import OperandRange

    return OperandRange(arguments.operand_min, arguments.operand_max, arguments.answer_min, arguments.answer_max)


def add_center_argument(parser: argparse.ArgumentParser) -> None:
    """The option that says whether logits are centred before they are normalised."""
    parser.add_argument(
        "--center-logits",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="centre over the vocabulary",
    )


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name a cell's train prompts."""
    parser.add_argument("--dataset", type=Path, required=True, help="dataset table of the cell")
    parser.add_argument("--corrupt-table", type=Path, required=True, help="corrupt partners of the cell")


def add_transfer_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name the pairs and the circuit of a transfer, and how it is measured."""
    parser.add_argument("--operator", required=True, help="the operator's name, for the seeded choices")
    parser.add_argument(
        "--census", nargs="+", required=True, metavar="FORMAT=FILE", help="census tables of the operator"
    )
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--pairs", type=int, default=600, help="at most so many pairs a direction")
    add_center_argument(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples and of the random neurons")


def add_effects_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that name the indirect effects of all formats, and circuit sizes."""
    parser.add_argument(
        "--effects", nargs="+", required=True, metavar="FORMAT=FILE", help="indirect effects of every format"
    )
    parser.add_argument("--k", type=int, nargs="+", required=True, help="circuit sizes")


def read_effects(arguments: argparse.Namespace) -> tuple[dict[str, "Effects"], dict[str, str]]:
    """Each format's indirect effects, and the model that they are of.

    Raises:
        UserError: the models differ.
    """
    from form_invariance.stages.overlap.compute import from_tensors
    from form_invariance.tables.files import read_tensors

    cells, models = {}, {}
    for name, path in named_paths(arguments.effects, "--effects").items():
        tensors, provenance = read_tensors(path, "indirect_effects")
        cells[name] = from_tensors(tensors, provenance["d_mlp"])
        models[name] = provenance["model"]
    if len(set(models.values())) > 1:
        raise UserError(f"--effects: the files are of different models, {models}; give the formats of one model")
    return cells, models


def device_of(arguments: argparse.Namespace) -> str:
    """The torch device that --device means on this machine.

    Raises:
        UserError: it cannot be used here.
    """
    import torch

    name: str = arguments.device
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device: {name!r} cannot be used here ({reason}); try cpu") from None
    return name


def dtype_of(arguments: argparse.Namespace) -> "torch.dtype":
    """The type of the weights that --dtype means; tf32 is a way to multiply float32."""
    import torch

    return torch.bfloat16 if arguments.dtype == "bfloat16" else torch.float32


def load_model(arguments: argparse.Namespace) -> tuple["Decoder", "PromptTokenizer"]:
    """The model and tokenizer that the options name."""
    import torch

    from form_invariance.model import digests as model_digests
    from form_invariance.model import loading as models
    from form_invariance.model.files import load_tokenizer, resolve

    device = device_of(arguments)
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    folder = resolve(arguments.model, arguments.revision)
    if arguments.model_files:
        model_digests.check(folder, arguments.model_files)
    return models.load(folder, dtype=dtype_of(arguments), device=device), load_tokenizer(folder)


def load_tokenizer_alone(arguments: argparse.Namespace) -> "PromptTokenizer":
    """The tokenizer of the model that the options name."""
    from form_invariance.model import digests as model_digests
    from form_invariance.model.files import load_tokenizer, resolve

    folder = resolve(arguments.model, arguments.revision)
    if arguments.model_files:
        model_digests.check(folder, arguments.model_files, only=model_digests.TOKENIZER)
    return load_tokenizer(folder)


def model_provenance(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a table records about the model that made it."""
    return {
        "model": arguments.model,
        "revision": arguments.revision,
        "dtype": arguments.dtype,
        "device": device_of(arguments),
    }
