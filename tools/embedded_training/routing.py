"""Routing in `embedded-separate`: each late neuron is active in one format only.

Seven dimensions of the residual stream are reserved. The embedding writes a constant, and marks the tokens that
occur in one format's templates only. BOS has the mark of the first format, which is the default. One frozen
attention group of layer 0 attends to a marked token and writes the format into three flags; nothing else writes
them. In the late layers every neuron belongs to one format. The weights of its gate on the other formats' flags
are frozen far below zero, so its activation is zero in these formats. The model is an ordinary Llama at every step
of the training.

Training begins with the first format alone. Then the late neurons of the other formats start as copies of the
first format's, and training continues with all formats.
"""

import numpy as np
import torch
from torch import Tensor

from embedded_training.recipe import Recipe
from embedded_training.wiring import Frozen

CONSTANT = 0
_MARK = 0.4
_ATTENTION = 8.0
_DEFAULT_PRIORITY = 1 / 6
_FLAG = 0.25
_INHIBITION = 200.0
WIRED_INHIBITION = 2000.0
"""Larger after the wiring: the residual stream grows in training, so the norm shrinks the flags."""


def marks(n_formats: int) -> slice:
    """Dimensions in which the embedding marks a token as belonging to a format."""
    return slice(1, 1 + n_formats)


def flags(n_formats: int) -> slice:
    """Dimensions in which layer 0 writes the prompt's format."""
    return slice(1 + n_formats, 1 + 2 * n_formats)


def neuron_format(recipe: Recipe, n_formats: int) -> np.ndarray:
    """The format that each late neuron belongs to, (m,)."""
    return np.arange(recipe.d_mlp) * n_formats // recipe.d_mlp


def copy_first_format(tensors: dict[str, Tensor], recipe: Recipe, n_formats: int) -> None:
    """Copy the weights (or moments) of the first format's late neurons to every other format, in place."""
    size = recipe.d_mlp // n_formats
    for layer in range(recipe.n_layers // 2, recipe.n_layers):
        for name in ("gate_proj", "up_proj", "down_proj"):
            tensor = tensors[f"model.layers.{layer}.mlp.{name}.weight"]
            by_neuron = tensor.T if name == "down_proj" else tensor
            for number in range(1, n_formats):
                by_neuron[number * size : (number + 1) * size] = by_neuron[:size]


def construct(frozen: Frozen, recipe: Recipe, marked: list[list[int]], bos: int) -> None:
    """Set and freeze the entries of the construction.

    Args:
        frozen: the initial weights, changed in place.
        marked: for each format, the ids of the tokens that occur in its templates only.
        bos: id of BOS, which gets the first format's mark.
    """
    n = len(marked)
    reserved, everything = slice(0, 1 + 2 * n), slice(None)
    embedding = "model.embed_tokens.weight"
    frozen.set(embedding, (everything, reserved), 0.0)
    frozen.set(embedding, (everything, CONSTANT), _MARK)
    frozen.set(embedding, (bos,))
    for number, tokens in enumerate(marked):
        frozen.set(embedding, (tokens, 1 + number), _MARK)
    frozen.set(embedding, (bos, 1), _MARK)
    frozen.set("model.norm.weight", (reserved,), 0.0)
    for layer in range(recipe.n_layers):
        at = f"model.layers.{layer}"
        frozen.set(f"{at}.self_attn.o_proj.weight", (reserved,), 0.0)
        frozen.set(f"{at}.mlp.down_proj.weight", (reserved,), 0.0)
        frozen.set(f"{at}.input_layernorm.weight", (reserved,), 1.0)
        frozen.set(f"{at}.post_attention_layernorm.weight", (reserved,), 1.0)
    _detector(frozen, recipe, n)
    inhibit(frozen, recipe, n, _INHIBITION)


def inhibit(frozen: Frozen, recipe: Recipe, n: int, strength: float) -> None:
    """Freeze the weights of the late gates on other formats' flags at minus `strength`."""
    owner = torch.from_numpy(neuron_format(recipe, n))
    inhibition = torch.where(owner[:, None] == torch.arange(n), 0.0, -strength)
    for layer in range(recipe.n_layers // 2, recipe.n_layers):
        frozen.set(f"model.layers.{layer}.mlp.gate_proj.weight", (slice(None), flags(n)), inhibition)


def _detector(frozen: Frozen, recipe: Recipe, n: int) -> None:
    """Freeze the first key/value group of layer 0 as the detector of marked tokens."""
    head = recipe.d_head
    queries = slice(0, head * recipe.n_heads // recipe.n_key_value_heads)
    at = "model.layers.0.self_attn"
    for name, rows in (("q_proj", queries), ("k_proj", slice(0, head)), ("v_proj", slice(0, head))):
        frozen.set(f"{at}.{name}.weight", (rows,), 0.0)
    frozen.set(f"{at}.o_proj.weight", (slice(None), queries), 0.0)
    # The slowest rotary pair hardly rotates over the length of a prompt.
    slow = head // 2 - 1
    frozen.set(f"{at}.q_proj.weight", (slow, CONSTANT), _ATTENTION)
    frozen.set(f"{at}.k_proj.weight", (slow, marks(n)), _ATTENTION)
    frozen.set(f"{at}.k_proj.weight", (slow, 1), _ATTENTION * _DEFAULT_PRIORITY)
    for number in range(n):
        frozen.set(f"{at}.v_proj.weight", (number, 1 + number), _FLAG)
        frozen.set(f"{at}.o_proj.weight", (1 + n + number, number), 1.0)
