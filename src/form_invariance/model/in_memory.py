"""A model that is already in memory: Hugging Face's, or TransformerLens's bridge to one. No file is read."""

import json
from copy import deepcopy
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from form_invariance.errors import UserError
from form_invariance.model import decoder
from form_invariance.model.decoder import Decoder
from form_invariance.model.families import decoder_config
from form_invariance.model.files import prompt_tokenizer
from form_invariance.model.loading import Stored
from form_invariance.model.stored_weights import refuse_quantised
from form_invariance.problems.prompts import PromptTokenizer

_WHERE = "the model in memory"
_CONFIG = "the model's config"
_TRIED = 8
"""Tokens on which a bridge is compared."""


def is_bridge(model: nn.Module) -> bool:
    """Whether it is TransformerLens's bridge."""
    return hasattr(model, "original_model")


def stored(model: nn.Module) -> Stored:
    """The configuration and weights of a model in memory. Weights that are read are copies.

    Args:
        model: Hugging Face's, or a bridge.

    Raises:
        UserError: it is neither, or has adapters, or its weights are quantised or not in memory.
    """
    inner: Any = model.original_model if is_bridge(model) else model
    if type(inner).__module__.startswith("peft"):
        _refuse_adapter()
    config: Any = getattr(inner, "config", None)
    if not hasattr(config, "to_json_string"):
        raise UserError(
            f"source: a module of type {type(model).__name__} is no model of Hugging Face's transformers and no "
            "bridge of TransformerLens; give the model that it contains"
        )
    raw = json.loads(config.to_json_string())
    decoder_config(raw, _CONFIG)
    weights: dict[str, Any] = inner.state_dict(keep_vars=True)
    if is_bridge(model):
        # A bridge wraps the model's modules in its own, and adds more.
        plain = {name.replace("._original_component", ""): weight for name, weight in weights.items()}
        with torch.device("meta"):
            weights = {name: plain[name] for name in type(inner)(deepcopy(config)).state_dict()}
    for name, weight in weights.items():
        _check(name, weight)

    # A tied weight has two names, and one copy.
    @cache
    def copied(weight: Tensor, device: str, dtype: torch.dtype) -> Tensor:
        return weight.detach().to(device, dtype, copy=True)

    return Stored(raw, weights.keys(), lambda name, *form: copied(weights[name], *form), _WHERE, _CONFIG)


def _refuse_adapter() -> None:
    raise UserError(f"{_WHERE} has an adapter; merge it into the weights with peft's merge_and_unload")


def _check(name: str, weight: object) -> None:
    """Check that a weight is a plain tensor with numbers, and not quantised."""
    if ".base_layer." in name:
        _refuse_adapter()
    if not isinstance(weight, Tensor):
        refuse_quantised(name, type(weight).__name__, _WHERE)
        raise UserError(f"{_WHERE}: {name!r} is no tensor but a value of type {type(weight).__name__}")
    if type(weight) not in (Tensor, nn.Parameter):
        raise UserError(
            f"{_WHERE}: weight {name!r} is a {type(weight).__name__}, not a plain tensor; give the model "
            "before it was quantised or distributed"
        )
    if weight.is_meta:
        raise UserError(
            f"{_WHERE}: weight {name!r} is not in memory (device meta); load the model without offloading"
        )
    kind = "BOOL" if weight.dtype == torch.bool else f"{'FI'[not weight.is_floating_point()]}{8 * weight.itemsize}"
    refuse_quantised(name, kind, _WHERE)


def tokenizer_of(tokenizer: object, vocabulary: int) -> PromptTokenizer:
    """A copy of Hugging Face's tokenizer.

    Raises:
        UserError: it is not a fast tokenizer (one written in Rust), or the model does not have its BOS token.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"tokenizer: a value of type {type(tokenizer).__name__} is no fast tokenizer of Hugging Face's "
            "transformers; give AutoTokenizer.from_pretrained(...)"
        )
    return prompt_tokenizer(Tokenizer.from_str(backend.to_str()), vocabulary, "the tokenizer")


@torch.no_grad()
def check_bridge(bridge: nn.Module, model: Decoder) -> None:
    """Check that the bridge and the model that was loaded from it have the same logits on a few tokens.

    Some bridges compute with copies of the weights of attention, which may have been changed alone.

    Raises:
        UserError: they differ by more than rounding.
    """
    weights = list(bridge.parameters())
    tokens = torch.arange(_TRIED)[None] % model.config.vocabulary
    training = bridge.training
    bridged = bridge.eval()(tokens.to(weights[0].device)).float().to(model.device)
    bridge.train(training)
    x = decoder.embed(model, tokens.to(model.device))
    ours = decoder.logits(model, decoder.run_layers(model, x))
    difference = ((ours - bridged).abs().max() / bridged.std()).item()
    precise = {model.dtype, *(weight.dtype for weight in weights)} == {torch.float32}
    if not difference <= (0.01 if precise else 0.3):  # more than rounding
        raise UserError(
            f"{_WHERE}: the bridge's logits differ from those of its Hugging Face model's weights by "
            f"{difference:.2g} standard deviations, because it processed the weights or its own copies of them "
            "were changed; give the Hugging Face model, or a bridge that was booted anew"
        )
