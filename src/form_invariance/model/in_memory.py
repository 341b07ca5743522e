"""A model that is already in memory: Hugging Face's, or TransformerLens's bridge to one. No file is read."""

from typing import Any

import torch
from torch import nn

from form_invariance.errors import UserError
from form_invariance.model import families, proof, unaltered
from form_invariance.model.decoder import Decoder
from form_invariance.model.modules import unwrapped

_WHERE = "the model in memory"


def read(model: nn.Module, dtype: torch.dtype, device: str) -> Decoder:
    """The model as a `Decoder`, whose weights are views where device and precision are the model's.

    Raises:
        UserError: it is neither a transformers model nor a bridge, it has a part that the engine does not compute,
            hooks or other code change it, or the engine computes something else.
    """
    outer: Any = unwrapped(model)
    inner: Any = unwrapped(getattr(outer, "original_model", outer))
    if type(inner).__module__.startswith("peft"):
        raise UserError(f"{_WHERE} has an adapter; merge it into the weights with peft's merge_and_unload")
    if not hasattr(getattr(inner, "config", None), "to_json_string"):
        raise UserError(
            f"source: a module of type {type(model).__name__} is neither a transformers model nor a "
            "TransformerLens bridge; give the model that it contains"
        )
    native_dtype = torch.float32 if inner.dtype == torch.float64 else inner.dtype
    decoder = families.read(inner, _WHERE, native_dtype, torch.device(device))
    unaltered.check(_WHERE, model, inner)
    # Compiling for one comparison would take a minute.
    with torch.compiler.set_stance("force_eager"):
        proof.check(outer, decoder, _WHERE)
    return decoder if native_dtype == dtype else families.read(inner, _WHERE, dtype, torch.device(device))
