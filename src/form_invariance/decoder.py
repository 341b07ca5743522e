"""A decoder-only transformer, the whole forward pass on one page.

Hooks are functions: `on_neurons(layer, post)` sees and may replace the MLP neurons' activations
(TransformerLens `hook_post`), `on_heads(layer, z)` the attention heads' outputs (`hook_z`). Shapes:

    B prompts, T tokens, d width of the residual stream, m MLP neurons,
    H heads, G key/value heads, D width of a head, V vocabulary
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.model_files import DecoderConfig

LayerHook = Callable[[int, Tensor], Tensor]


@dataclass
class LayerWeights:
    """One layer. Matrices map rows to columns as in `x @ W.T` (out, in); biases and q/k norms may be None."""

    attention_norm: Tensor  # (d,)
    query: Tensor  # (H*D, d)
    key: Tensor  # (G*D, d)
    value: Tensor  # (G*D, d)
    output: Tensor  # (d, H*D)
    mlp_norm: Tensor  # (d,)
    gate: Tensor  # (m, d)
    up: Tensor  # (m, d)
    down: Tensor  # (d, m)
    query_bias: Tensor | None = None  # (H*D,)
    key_bias: Tensor | None = None  # (G*D,)
    value_bias: Tensor | None = None  # (G*D,)
    output_bias: Tensor | None = None  # (d,)
    query_norm: Tensor | None = None  # (D,)
    key_norm: Tensor | None = None  # (D,)


@dataclass
class Decoder:
    """Weights and configuration of one model."""

    config: DecoderConfig
    embedding: Tensor  # (V, d)
    layers: list[LayerWeights]
    final_norm: Tensor  # (d,)
    unembedding: Tensor  # (V, d)
    inverse_frequencies: Tensor  # (D/2,)
    rope_scale: float = 1.0

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' precision."""
        return self.embedding.dtype


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x / rms(x) · weight over the last axis, the mean square taken in fp32."""
    return F.rms_norm(x.float(), (x.shape[-1],), eps=epsilon).to(x.dtype) * weight


def rotation(model: Decoder, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding, each (T, D), for `positions` (T,)."""
    angles = positions.float()[:, None] * model.inverse_frequencies.float()[None, :]
    angles = torch.cat([angles, angles], dim=-1)
    scale = model.rope_scale
    return (angles.cos() * scale).to(model.dtype), (angles.sin() * scale).to(model.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply a rotation (..., T, 1, D) or anything that broadcasts to x (..., T, heads, D)."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


def queries_keys_values(
    model: Decoder, layer: int, x: Tensor, cos: Tensor, sin: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (..., H, D), rotated keys and values (..., G, D) of the residual stream x (..., d)."""
    c, w = model.config, model.layers[layer]
    normed = rms_norm(x, w.attention_norm, c.norm_epsilon)
    q = F.linear(normed, w.query, w.query_bias).unflatten(-1, (c.n_heads, c.d_head))
    k = F.linear(normed, w.key, w.key_bias).unflatten(-1, (c.n_key_value_heads, c.d_head))
    v = F.linear(normed, w.value, w.value_bias).unflatten(-1, (c.n_key_value_heads, c.d_head))
    if w.query_norm is not None and w.key_norm is not None:
        q = rms_norm(q, w.query_norm, c.norm_epsilon)
        k = rms_norm(k, w.key_norm, c.norm_epsilon)
    return rotate(q, cos, sin), rotate(k, cos, sin), v


def attention(model: Decoder, layer: int, x: Tensor, *, last_only: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of every token (or of the last alone) over the sequence.

    Args:
        x: residual stream before the layer, (B, T, d).
        last_only: compute the heads' outputs of the last token alone.

    Returns:
        z (B, T or 1, H, D), rotated keys (B, T, G, D), values (B, T, G, D).
    """
    tokens = x.shape[1]
    cos, sin = rotation(model, torch.arange(tokens, device=x.device))
    q, k, v = queries_keys_values(model, layer, x, cos[:, None], sin[:, None])
    if last_only:
        q = q[:, -1:]
    z = F.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        is_causal=not last_only and tokens > 1,
        enable_gqa=True,
    )
    return z.transpose(1, 2), k, v


def neurons(model: Decoder, layer: int, x: Tensor) -> Tensor:
    """Activations of the MLP's neurons (..., m): what the down-projection reads, for residual x (..., d)."""
    w = model.layers[layer]
    normed = rms_norm(x, w.mlp_norm, model.config.norm_epsilon)
    gate = F.linear(normed, w.gate)
    gate = F.silu(gate) if model.config.activation == "silu" else F.gelu(gate, approximate="tanh")
    return gate * F.linear(normed, w.up)


def add_heads(model: Decoder, layer: int, x: Tensor, z: Tensor) -> Tensor:
    """Residual stream after attention: x (..., d) plus the heads' outputs z (..., H, D), projected."""
    w = model.layers[layer]
    return x + F.linear(z.flatten(-2), w.output, w.output_bias)


def add_neurons(model: Decoder, layer: int, x: Tensor, post: Tensor) -> Tensor:
    """Residual stream after the MLP: x (..., d) plus the neurons' activations post (..., m), projected."""
    return x + F.linear(post, model.layers[layer].down)


def embed(model: Decoder, tokens: Tensor) -> Tensor:
    """Residual stream before layer 0, (B, T, d), of token ids (B, T)."""
    return F.embedding(tokens, model.embedding)


def run_layers(
    model: Decoder,
    x: Tensor,
    start: int = 0,
    stop: int | None = None,
    *,
    on_neurons: LayerHook | None = None,
    on_heads: LayerHook | None = None,
    last_only: bool = False,
) -> Tensor:
    """Run layers start..stop-1 over whole sequences.

    Args:
        x: residual stream before layer `start`, (B, T, d).
        on_neurons: called with (layer, post (B, T, m)); what it returns is used.
        on_heads: called with (layer, z (B, T, H, D)); what it returns is used.
        last_only: in the last layer that runs, compute the last token alone. The hooks then see T = 1.

    Returns:
        Residual stream after layer stop-1, (B, T, d), or (B, 1, d) with `last_only`.
    """
    stop = model.config.n_layers if stop is None else stop
    for layer in range(start, stop):
        only = last_only and layer == stop - 1
        z, _, _ = attention(model, layer, x, last_only=only)
        if only:
            x = x[:, -1:]
        x = add_heads(model, layer, x, on_heads(layer, z) if on_heads else z)
        post = neurons(model, layer, x)
        x = add_neurons(model, layer, x, on_neurons(layer, post) if on_neurons else post)
    return x


def logits(model: Decoder, x: Tensor) -> Tensor:
    """Logits (..., V) of the residual stream after the last layer, x (..., d)."""
    return F.linear(rms_norm(x, model.final_norm, model.config.norm_epsilon), model.unembedding)
