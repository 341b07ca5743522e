"""Llamas of a given size with random weights. Their speed is that of a real model of this size."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

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
    """The shape named `random:NAME`; a UserError if there is none."""
    name = source.removeprefix(PREFIX)
    if name not in SHAPES:
        raise UserError(f"--model: unknown shape {source!r}; use random:{', random:'.join(SHAPES)}")
    return SHAPES[name]


def hugging_face_config(shape: Shape, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """The content of config.json."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.d_model,
        "intermediate_size": shape.d_mlp,
        "num_hidden_layers": shape.n_layers,
        "num_attention_heads": shape.n_heads,
        "num_key_value_heads": shape.n_key_value_heads,
        "vocab_size": shape.vocabulary,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0 if shape.rope_scaling else 10000.0,
        "max_position_embeddings": 131072 if shape.rope_scaling else 8192,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }
    return config | ({"rope_scaling": _LLAMA3} if shape.rope_scaling else {})


def random_weights(shape: Shape) -> Iterator[dict[str, Tensor]]:
    """Seeded weights by their Hugging Face names, one piece at a time. Logits are a few units large."""
    rng = torch.Generator().manual_seed(0)
    d, m = shape.d_model, shape.d_mlp
    keys = d * shape.n_key_value_heads // shape.n_heads

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng) * size[-1] ** -0.5

    yield {"model.embed_tokens.weight": normal(shape.vocabulary, d), "model.norm.weight": torch.ones(d)}
    if not shape.tied:
        yield {"lm_head.weight": normal(shape.vocabulary, d)}
    for layer in range(shape.n_layers):
        weights = {}
        at = f"model.layers.{layer}"
        for name, size in (("q", (d, d)), ("k", (keys, d)), ("v", (keys, d)), ("o", (d, d))):
            weights[f"{at}.self_attn.{name}_proj.weight"] = normal(*size)
        for name, size in (("gate", (m, d)), ("up", (m, d)), ("down", (d, m))):
            weights[f"{at}.mlp.{name}_proj.weight"] = normal(*size)
        weights[f"{at}.input_layernorm.weight"] = torch.ones(d)
        weights[f"{at}.post_attention_layernorm.weight"] = torch.ones(d)
        yield weights


def write_random_model(folder: Path, shape: Shape, dtype: torch.dtype = torch.float32) -> None:
    """Write a Hugging Face folder with random weights, and a tokenizer for numbers and the templates."""
    from form_invariance.embedded.tokenizer import BOS, build_tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    index = {}
    for number, weights in enumerate(random_weights(shape)):
        name = f"model-{number:05}.safetensors"
        stored = {key: weight.to(dtype) for key, weight in weights.items()}
        save_file(stored, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(weights, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps(hugging_face_config(shape, dtype)))
    build_tokenizer([SYMBOLIC, WORD]).save(str(folder / "tokenizer.json"))
    options = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "add_bos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
