"""The model that a command's options name."""

import argparse
from typing import Any

import torch

from form_invariance.errors import UserError
from form_invariance.model import loading as models
from form_invariance.model.decoder import Decoder
from form_invariance.model.files import load_tokenizer
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.options import settings
from form_invariance.stages.tokenizer_options import checked_folder


def device_of(arguments: argparse.Namespace) -> str:
    """The torch device that --device means on this machine.

    Raises:
        UserError: it cannot be used here.
    """
    name: str = arguments.device
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device: {name!r} cannot be used here ({reason}); try cpu") from None
    return name


def dtype_of(arguments: argparse.Namespace) -> torch.dtype:
    """The type of the weights that --dtype means; tf32 is a way to multiply float32."""
    return torch.bfloat16 if arguments.dtype == "bfloat16" else torch.float32


def load_model(arguments: argparse.Namespace) -> tuple[Decoder, PromptTokenizer]:
    """The model and tokenizer that the options name, from an earlier command of this process if it loaded them."""
    device = device_of(arguments)
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    loaded = getattr(arguments, "models", {})  # absent where no command line was parsed
    key = (arguments.model, arguments.revision, arguments.model_files, arguments.dtype, device)
    if key not in loaded:
        loaded.clear()  # one model at a time is in memory
        folder = checked_folder(arguments)
        loaded[key] = models.load(folder, dtype=dtype_of(arguments), device=device), load_tokenizer(folder)
    found: tuple[Decoder, PromptTokenizer] = loaded[key]
    return found


def model_provenance(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What a table records about the model that made it, and the values of some other options."""
    return {**settings(arguments, "model", "revision", "dtype", *names), "device": device_of(arguments)}
