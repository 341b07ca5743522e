"""The reference engine: a model in TransformerLens, whose hooks read and replace activations."""

from pathlib import Path
from typing import Any

import torch

from form_invariance.errors import UserError
from form_invariance.json_yaml import read_json


class NotSupportedError(UserError):
    """TransformerLens is not installed, or does not know the model's architecture."""


def boot(folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    """The model of a Hugging Face folder as a TransformerBridge with frozen weights.

    The weights are those of the files: nothing is folded or centred. Only local files are read, for the tokenizer
    tokenizer.json alone.

    Raises:
        NotSupportedError: TransformerLens is not installed, or does not know the architecture.
    """
    try:
        from transformer_lens.model_bridge import TransformerBridge
        from transformers import PreTrainedTokenizerFast
        from transformers.utils import logging
    except ImportError as error:
        raise NotSupportedError(
            f"TransformerLens cannot be imported ({error}); install form-invariance[workflow]"
        ) from None
    logging.disable_progress_bar()
    # Without a tokenizer the bridge would look one up by the model's name.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    try:
        bridge: Any = TransformerBridge.boot_transformers(
            str(folder), dtype=dtype, device=device, tokenizer=tokenizer
        )
    except ValueError as error:
        if "architecture" not in str(error):
            raise
        named = read_json(folder / "config.json").get("architectures")
        raise NotSupportedError(
            f"TransformerLens does not know the architecture that {folder / 'config.json'} names ({named})"
        ) from None
    return bridge.eval().requires_grad_(False)


def neurons_at(layer: int) -> str:
    """The hook of a layer's MLP neurons, (B, T, m)."""
    return f"blocks.{layer}.mlp.hook_post"


def residual_before(layer: int) -> str:
    """The hook of the residual stream before a layer, (B, T, d)."""
    return f"blocks.{layer}.hook_in"
