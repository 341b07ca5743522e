"""The model that a command's options name."""

import argparse
from pathlib import Path
from typing import Any

import torch

from form_invariance.errors import UserError
from form_invariance.model import in_memory
from form_invariance.model import loading as models
from form_invariance.model.decoder import Decoder
from form_invariance.model.near_readout import Readouts
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.options import settings
from form_invariance.stages.tokenizer_options import checked_folder, tokenizer_in

DTYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16}
"""The type of the weights by the value of --dtype; tf32 is a way to multiply float32."""


def device_of(arguments: argparse.Namespace) -> str:
    """The torch device that --device means on this machine.

    Raises:
        UserError: it cannot be used here.
    """
    name: str = arguments.device
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tried = torch.zeros(1, device=name)
        tried.item()  # some devices have tensors without values
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--device: {name!r} cannot be used here ({reason}); try cpu") from None
    return "cpu" if tried.is_cpu else name


def dtype_of(arguments: argparse.Namespace) -> torch.dtype:
    """The type of the weights that --dtype means.

    Raises:
        UserError: there is no such type.
    """
    if arguments.dtype not in DTYPES:
        raise UserError(f"dtype: {arguments.dtype!r} must be one of {', '.join(DTYPES)}")
    return DTYPES[arguments.dtype]


def readouts_of(arguments: argparse.Namespace) -> Readouts:
    """How a job reads out its patches, by --readout; it has read out none yet."""
    return Readouts(full=arguments.readout == "full")


def load_decoder(source: Path | torch.nn.Module, arguments: argparse.Namespace, *, prove: bool = False) -> Decoder:
    """Load a folder's model, or take one in memory, with the precision and device that the options name.

    Args:
        prove: compare the logits with transformers'. For a model in memory this is always done.
    """
    dtype, device = dtype_of(arguments), device_of(arguments)
    if isinstance(source, Path):
        model = models.load(source, dtype=dtype, device=device, prove=prove)
    else:
        model = in_memory.read(source, dtype, device)
    model.tf32 = arguments.dtype == "tf32"
    return model


def load_model(arguments: argparse.Namespace) -> tuple[Decoder, PromptTokenizer]:
    """The model and tokenizer that the options name."""
    folder = checked_folder(arguments)
    model = load_decoder(folder, arguments)
    torch.backends.cuda.matmul.allow_tf32 = model.tf32
    return model, tokenizer_in(folder, arguments)


def model_provenance(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What a table records about the model that made it, and the values of some other options."""
    return {**settings(arguments, "model", "revision", "dtype", *names), "device": device_of(arguments)}
