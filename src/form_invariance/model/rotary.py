"""The rotary embedding: frequencies from config.json, in its old and its new form, and the rotation itself."""

import math
from typing import Any

import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.families import DecoderConfig
from form_invariance.model.family_defaults import settings


def rotation(inverse: Tensor | None, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
    """Cosines and sines, each (T, 1, r), for `positions` (T,) and a layer's inverse frequencies (r/2,)."""
    if inverse is None:
        return None
    angles = positions.float()[:, None] * inverse[None, :]
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, by: tuple[Tensor, Tensor] | None) -> Tensor:
    """Rotate the first r dimensions of heads x (..., T, heads, D), or (..., heads, D) at one position."""
    if by is None:
        return x
    cos, sin = by
    turned, kept = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    half = turned.shape[-1] // 2
    result = turned * cos
    # In place: half as many passes over the memory.
    result[..., :half].addcmul_(turned[..., half:], sin[..., :half], value=-1)
    result[..., half:].addcmul_(turned[..., :half], sin[..., half:])
    return torch.cat([result, kept], dim=-1) if kept.shape[-1] else result


def _layer_type(raw: dict[str, Any], layer: int) -> str:
    """What a layer of Gemma 3 attends to: `full_attention` or `sliding_attention`."""
    if raw["layer_types"] is not None:
        return str(raw["layer_types"][layer])
    return "sliding_attention" if (layer + 1) % raw["sliding_window_pattern"] else "full_attention"


def _parameters(raw: dict[str, Any], layer: int) -> dict[str, Any]:
    """Type, base and scaling of one layer's rotary embedding, in the order in which Hugging Face prefers them."""
    raw = settings(raw)
    family = raw["model_type"]
    if family == "gemma3_text":
        kind = _layer_type(raw, layer)
        rope = dict((raw["rope_parameters"] or {}).get(kind) or {})
        if kind == "full_attention":
            rope |= raw["rope_scaling"] or {}
        base = raw[{"full_attention": "rope_theta", "sliding_attention": "rope_local_base_freq"}[kind]]
        share = None
    else:
        rope = dict(raw["rope_scaling"] or raw["rope_parameters"] or {})
        names = (
            ("rotary_emb_base", "rotary_pct") if family == "gpt_neox" else ("rope_theta", "partial_rotary_factor")
        )
        base, share = (raw[name] for name in names)
        if raw["original_max_position_embeddings"] is not None:
            rope["original_max_position_embeddings"] = raw["original_max_position_embeddings"]
    if nested := [key for key, value in rope.items() if isinstance(value, dict)]:
        raise ValueError(f"the family has one embedding for all layers, not {nested[0]!r}")
    rope = {"rope_type": rope.get("type", "default"), "rope_theta": base, "partial_rotary_factor": share, **rope}
    whole = rope["rope_type"] == "default" and family not in ("gpt_neox", "phi3")
    if whole or rope["partial_rotary_factor"] is None:
        rope["partial_rotary_factor"] = 1.0
    return {"original_max_position_embeddings": raw["max_position_embeddings"], **rope}


def inverse_frequencies(raw: dict[str, Any], config: DecoderConfig, layer: int, where: str) -> Tensor | None:
    """Inverse frequencies (r/2,) of a layer; None for a model with learned positions.

    Args:
        raw: the content of config.json.
        where: path of config.json, for messages.

    Raises:
        UserError: the scaling is not supported, or the parameters are not valid.
    """
    if raw["model_type"] == "gpt2":
        return None
    try:
        inverse = _scaled(_parameters(raw, layer), config, where)
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise UserError(f"{where}: the parameters of the rotary embedding are not valid ({error!r})") from None
    if not (0 < 2 * len(inverse) <= config.d_head and inverse.isfinite().all()):
        raise UserError(f"{where}: the rotary embedding does not fit heads of width {config.d_head}")
    return inverse


def _scaled(rope: dict[str, Any], config: DecoderConfig, where: str) -> Tensor:
    """Inverse frequencies from the type, base and scaling of a rotary embedding."""
    width = int(config.d_head * float(rope["partial_rotary_factor"]))
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    inverse = 1.0 / (float(rope["rope_theta"]) ** exponents)
    kind = rope["rope_type"]
    if kind == "default":
        return inverse
    if kind == "linear":
        return inverse / float(rope["factor"])
    if kind != "llama3":
        raise UserError(f"{where}: rope scaling {kind!r} is not supported, only 'default', 'linear' and 'llama3'")
    factor, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    old_length = rope["original_max_position_embeddings"]
    wavelength = 2 * math.pi / inverse
    smooth = ((old_length / wavelength - low) / (high - low)).clamp(0, 1)
    return inverse * (smooth + (1 - smooth) / factor)
