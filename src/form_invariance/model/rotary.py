"""The rotary embedding."""

import torch
from torch import Tensor


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
