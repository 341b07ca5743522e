"""A model, and functions that run in its precision whatever a notebook has switched on."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import torch

from form_invariance.errors import UserError
from form_invariance.experiment.late_layers import first_late_layer
from form_invariance.experiment.model_options import load_decoder
from form_invariance.experiment.run import Run
from form_invariance.library.tables import shown, whole
from form_invariance.model import files, tokenizers
from form_invariance.model.decoder import Decoder
from form_invariance.model.precision import precision_of
from form_invariance.problems.prompts import PromptTokenizer

_Function = TypeVar("_Function", bound=Callable[..., Any])


def load_model(
    source: str | os.PathLike[str] | torch.nn.Module,
    first_layer: int | None = None,
    dtype: str | torch.dtype = "float32",
    device: str | torch.device = "auto",
    revision: str | None = None,
    tokenizer: object = None,
) -> Run:
    """A model with its tokenizer.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> model.late
    range(3, 6)

    Args:
        source: a Hugging Face folder, a GGUF file, a hub id, or embedded:NAME; a Path is a folder or a file.
            Or a model in memory: one of Hugging Face's transformers, or a bridge of TransformerLens. Its weights
            are not copied if precision and device are the same. Load it again after its weights have changed.
        first_layer: the first layer whose neurons are studied; None takes the second half of the layers.
        dtype: float32, tf32 or bfloat16.
        device: auto, cpu, cuda, ...
        revision: hub branch, tag or commit.
        tokenizer: the tokenizer of a model in memory; None takes the bridge's.

    Raises:
        UserError: the model cannot be read, this package does not compute its logits, or an argument is wrong.
    """
    layer_number = None if first_layer is None else whole(first_layer)
    if layer_number is None and first_layer is not None:
        raise UserError(f"first_layer: {shown(first_layer)} must be a layer of the model, or None")
    if not isinstance(revision, str | None):
        raise UserError(f"revision: {shown(revision)} must be a branch, tag or commit of the hub, as text")
    precision, device_name = str(dtype).removeprefix("torch."), str(device)
    # Weights made in inference mode could not be differentiated later.
    with torch.inference_mode(False):
        if isinstance(source, torch.nn.Module):
            model, encoder = _from_memory(source, precision, device_name, revision, tokenizer)
        else:
            model, encoder = _from_files(source, precision, device_name, revision, tokenizer)
    layers = model.config.n_layers
    first = first_late_layer("half_depth", layers) if layer_number is None else layer_number
    if not 0 <= first < layers:
        raise UserError(f"first_layer: {first} must be a layer of 0..{layers - 1} of this model")
    named = f"{type(source).__name__} in memory" if isinstance(source, torch.nn.Module) else str(source)
    return Run(model, encoder, first, source=named)


def _from_memory(
    source: torch.nn.Module, dtype: str, device: str, revision: str | None, tokenizer: object
) -> tuple[Decoder, PromptTokenizer]:
    if revision is not None:
        raise UserError(f"revision: {shown(revision)} is given with a model in memory; leave it out")
    model_tokenizer = getattr(source, "tokenizer", None) if tokenizer is None else tokenizer
    if model_tokenizer is None:
        raise UserError("tokenizer: a model in memory needs its tokenizer, load_model(model, tokenizer=tokenizer)")
    model = load_decoder(source, dtype, device)
    return model, tokenizers.of_object(model_tokenizer, model.config.vocabulary)


def _from_files(
    source: object, dtype: str, device: str, revision: str | None, tokenizer: object
) -> tuple[Decoder, PromptTokenizer]:
    if tokenizer is not None:
        raise UserError("tokenizer: a folder or hub id has its own tokenizer; leave it out")
    try:
        folder = files.resolve(_source(source), revision)
    except OSError as error:
        raise UserError(f"source: {shown(source)} cannot be read: {error.strerror}") from None
    return load_decoder(folder, dtype, device, prove=True), tokenizers.load_tokenizer(folder)


def _source(source: object) -> str:
    """A source in the form that `files.resolve` takes."""
    # Absolute, because a relative Path may look like a hub id.
    path = os.path.abspath(os.path.expanduser(source)) if isinstance(source, os.PathLike) else source
    if not isinstance(path, str):
        raise UserError(f"source: {shown(source)} must be a folder, a GGUF file, a hub id or embedded:NAME")
    return path


def as_loaded(function: _Function) -> _Function:
    """Make a function run in the model's precision, and refuse a model that `load_model` did not return."""

    @wraps(function)
    def run(model: Run, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(model, Run):
            raise UserError(f"model: give what load_model returns, not a value of type {type(model).__name__}")
        with precision_of(model.model):
            return function(model, *args, **kwargs)

    return cast(_Function, run)
