"""The rotary embedding: frequencies from config.json, in its old and its new form, and the rotation itself."""

import math
from typing import Any

import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.families import DecoderConfig

_GEMMA3_PATTERN = 6
"""Every sixth layer of Gemma 3 attends globally, unless config.json says otherwise."""


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


def _is_global(raw: dict[str, Any], layer: int) -> bool:
    types = raw.get("layer_types")
    if types:
        return bool(types[layer] == "full_attention")
    return (layer + 1) % int(raw.get("sliding_window_pattern") or _GEMMA3_PATTERN) == 0


def _parameters(raw: dict[str, Any], layer: int) -> dict[str, Any]:
    """Type, base and scaling of one layer's rotary embedding."""
    rope = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    base = raw.get("rope_theta") or raw.get("rotary_emb_base")
    if raw["model_type"] == "gemma3_text":
        everywhere = _is_global(raw, layer)
        kind = "full_attention" if everywhere else "sliding_attention"
        if kind in rope:
            rope = dict(rope[kind] or {})
        elif not everywhere:
            # In the old form the scaling applies to the global layers alone.
            rope, base = {}, raw.get("rope_local_base_freq")
        base = base or (1_000_000.0 if everywhere else 10_000.0)
    share = raw.get("partial_rotary_factor") or raw.get("rotary_pct")
    if share is None and raw["model_type"] == "gpt_neox" and "rope_parameters" not in raw:
        share = 0.25
    return {"rope_theta": base or 10_000.0, "partial_rotary_factor": share or 1.0, **rope}


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
    kind = rope.get("rope_type") or rope.get("type") or "default"
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
