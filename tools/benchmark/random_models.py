"""Llamas of a given size with random weights. Their speed is that of a real model of this size."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from embedded_training.saving import layer_shapes, llama_config, write_description
from embedded_training.tokenizer import build_tokenizer
from form_invariance.errors import UserError

PREFIX = "random:"

SYMBOLIC = "{a}+{b}="
WORD = "Jack has {a} apples. His friend gives him {b} more apples. How many apples does Jack have now? Answer: "
"""Templates for the random models: 4 and 26 tokens without BOS."""

_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@dataclass(frozen=True)
class Shape:
    """Sizes of a Llama."""

    d_model: int = 512
    n_layers: int = 12
    d_mlp: int = 1536
    n_heads: int = 8
    n_key_value_heads: int = 4
    vocabulary: int = 32000
    tied: bool = False
    rope_scaling: bool = False
    """Use the rope scaling of Llama 3.2."""


SHAPES = {
    "small": Shape(),
    "llama-3.2-1b": Shape(2048, 16, 8192, 32, 8, 128256, tied=True, rope_scaling=True),
    "llama-3.2-3b": Shape(3072, 28, 8192, 24, 8, 128256, tied=True, rope_scaling=True),
    "llama-3-8b": Shape(4096, 32, 14336, 32, 8, 128256),
}


def shape_named(source: str) -> Shape:
    """The shape named `random:NAME`, or `random:NAME:LAYERS` with fewer layers; a UserError if there is none."""
    name, _, layers = source.removeprefix(PREFIX).partition(":")
    if name not in SHAPES:
        raise UserError(f"--model: unknown shape {source!r}; use random:{', random:'.join(SHAPES)}")
    if not layers:
        return SHAPES[name]
    if not layers.isdecimal() or not 2 <= int(layers) <= SHAPES[name].n_layers:
        raise UserError(f"--model: {source!r} must end in a number of layers from 2 to {SHAPES[name].n_layers}")
    return replace(SHAPES[name], n_layers=int(layers))


def _config(shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "tie_word_embeddings": shape.tied,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    settings["max_position_embeddings"] = 8192
    if shape.rope_scaling:
        settings |= {"max_position_embeddings": 131072, "rope_theta": 500000.0, "rope_scaling": _LLAMA3}
    return llama_config({**asdict(shape), "d_head": shape.d_model // shape.n_heads}, shape.vocabulary, **settings)


def _random_weights(config: dict[str, Any], device: str) -> Iterator[dict[str, Tensor]]:
    """Seeded weights by their Hugging Face names, one piece at a time. Logits are a few units large."""
    rng = torch.Generator(device).manual_seed(0)
    d, vocabulary = config["hidden_size"], config["vocab_size"]

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng, device=device) * size[-1] ** -0.5

    yield {"model.embed_tokens.weight": normal(vocabulary, d), "model.norm.weight": torch.ones(d)}
    if not config["tie_word_embeddings"]:
        yield {"lm_head.weight": normal(vocabulary, d)}
    shapes = layer_shapes(config)
    for layer in range(config["num_hidden_layers"]):
        yield {
            f"model.layers.{layer}.{name}.weight": normal(*shape) if len(shape) == 2 else torch.ones(shape)
            for name, shape in shapes.items()
        }


def write_random_model(
    folder: Path, shape: Shape, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> None:
    """Write a Hugging Face folder with random weights, and a tokenizer for numbers and the templates.

    Args:
        device: where the weights are drawn. A GPU draws other values than a CPU, but 8 billion of them in seconds.
    """
    config = _config(shape, dtype)
    write_description(folder, config, build_tokenizer([SYMBOLIC, WORD]))
    index = {}
    for number, weights in enumerate(_random_weights(config, device)):
        name = f"model-{number:05}.safetensors"
        stored = {key: weight.to(dtype).cpu() for key, weight in weights.items()}
        save_file(stored, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(weights, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
