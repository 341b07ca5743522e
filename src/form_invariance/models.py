"""Loading a model's weights from a Hugging Face folder: safetensors alone, no pickle, no remote code."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from form_invariance.decoder import Decoder, LayerWeights
from form_invariance.errors import UserError
from form_invariance.model_files import read_config, weight_files


def _inverse_frequencies(raw: dict[str, Any], d_head: int) -> Tensor:
    """Rotary inverse frequencies (D/2,), with Llama 3's scaling where the configuration asks for it."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10000.0)
    inverse = 1.0 / (theta ** (torch.arange(0, d_head, 2, dtype=torch.float32) / d_head))
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return inverse
    if kind != "llama3":
        raise UserError(f"config.json: rope scaling {kind!r} is not supported, only 'default' and 'llama3'")
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    old_length = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / inverse
    smooth = ((old_length / wavelength - low) / (high - low)).clamp(0, 1)
    return inverse * (smooth + (1 - smooth) / factor)


def load(folder: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Decoder:
    """Load the weights of a model folder.

    Raises:
        UserError: a file or a weight is missing, broken or of the wrong shape.
    """
    config, raw = read_config(folder)
    files = weight_files(folder)
    opened: dict[Path, Any] = {}

    def weight(name: str, *shape: int) -> Tensor:
        if name not in files:
            raise UserError(f"model folder {folder}: weight {name!r} is missing")
        path = files[name]
        if path not in opened:
            opened[path] = safe_open(path, framework="pt", device=device)
        tensor: Tensor = opened[path].get_tensor(name)
        if tensor.shape != shape:
            raise UserError(
                f"{path}: weight {name!r} has shape {tuple(tensor.shape)}, but config.json asks for {shape}"
            )
        return tensor.to(dtype)

    def optional(name: str, *shape: int) -> Tensor | None:
        return weight(name, *shape) if name in files else None

    d, m, head = config.d_model, config.d_mlp, config.d_head
    queries, keys = config.n_heads * head, config.n_key_value_heads * head
    layers = []
    for index in range(config.n_layers):
        at, mlp = f"model.layers.{index}.self_attn", f"model.layers.{index}.mlp"
        layers.append(
            LayerWeights(
                attention_norm=weight(f"model.layers.{index}.input_layernorm.weight", d),
                query=weight(f"{at}.q_proj.weight", queries, d),
                key=weight(f"{at}.k_proj.weight", keys, d),
                value=weight(f"{at}.v_proj.weight", keys, d),
                output=weight(f"{at}.o_proj.weight", d, queries),
                mlp_norm=weight(f"model.layers.{index}.post_attention_layernorm.weight", d),
                gate=weight(f"{mlp}.gate_proj.weight", m, d),
                up=weight(f"{mlp}.up_proj.weight", m, d),
                down=weight(f"{mlp}.down_proj.weight", d, m),
                query_bias=optional(f"{at}.q_proj.bias", queries),
                key_bias=optional(f"{at}.k_proj.bias", keys),
                value_bias=optional(f"{at}.v_proj.bias", keys),
                output_bias=optional(f"{at}.o_proj.bias", d),
                query_norm=optional(f"{at}.q_norm.weight", head),
                key_norm=optional(f"{at}.k_norm.weight", head),
            )
        )
    embedding = weight("model.embed_tokens.weight", config.vocabulary, d)
    tied = bool(raw.get("tie_word_embeddings", False))
    return Decoder(
        config=config,
        embedding=embedding,
        layers=layers,
        final_norm=weight("model.norm.weight", d),
        unembedding=embedding if tied else weight("lm_head.weight", config.vocabulary, d),
        inverse_frequencies=_inverse_frequencies(raw, head).to(device),
    )
