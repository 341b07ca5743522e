"""A decoder-only transformer, the whole forward pass on one page.

Hooks are functions: `on_neurons(layer, post)` sees and may replace the MLP neurons' activations
(TransformerLens `hook_post`), `on_heads(layer, z)` the attention heads' outputs (`hook_z`). Shapes:

    B prompts, T tokens, d width of the residual stream, m MLP neurons,
    H heads, G key/value heads, D width of a head, V vocabulary
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.families import DecoderConfig

LayerHook = Callable[[int, Tensor], Tensor]

Past = tuple[Tensor, Tensor, Tensor]
"""Rotated keys and values (n, P, G, D) of n beginnings in one layer, and which of them each sequence has (B,)."""


@dataclass
class Norm:
    """Weight (d,) of a norm, and the bias (d,) that only LayerNorm has."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass
class LayerWeights:
    """One layer. Matrices map rows to columns as in `x @ W.T` (out, in); what an architecture lacks is None."""

    query: Tensor  # (H*D, d)
    key: Tensor  # (G*D, d)
    value: Tensor  # (G*D, d)
    output: Tensor  # (d, H*D)
    up: Tensor  # (m, d)
    down: Tensor  # (d, m)
    gate: Tensor | None = None  # (m, d)
    attention_norm: Norm | None = None
    mlp_norm: Norm | None = None
    attention_post_norm: Norm | None = None  # of what the heads add to the residual stream
    mlp_post_norm: Norm | None = None  # of what the neurons add to it
    query_norm: Norm | None = None  # (D,) of each head, or (H*D,) of all together
    key_norm: Norm | None = None  # (D,) or (G*D,)
    query_bias: Tensor | None = None  # (H*D,)
    key_bias: Tensor | None = None  # (G*D,)
    value_bias: Tensor | None = None  # (G*D,)
    output_bias: Tensor | None = None  # (d,)
    up_bias: Tensor | None = None  # (m,)
    down_bias: Tensor | None = None  # (d,)
    inverse_frequencies: Tensor | None = None  # (r/2,) of the rotary embedding of the first r <= D dimensions


@dataclass
class Decoder:
    """Weights and configuration of one model."""

    config: DecoderConfig
    embedding: Tensor  # (V, d)
    layers: list[LayerWeights]
    final_norm: Norm
    unembedding: Tensor  # (V, d), float32 in every precision
    positions: Tensor | None = None  # (longest, d): learned positions

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' precision."""
        return self.embedding.dtype


def normalise(model: Decoder, x: Tensor, norm: Norm | None) -> Tensor:
    """RMSNorm or LayerNorm over the last axis, its statistics taken in fp32; x itself where there is none."""
    if norm is None:
        return x
    shape, epsilon = (x.shape[-1],), model.config.norm_epsilon
    if norm.bias is not None:
        return F.layer_norm(x.float(), shape, eps=epsilon).to(x.dtype) * norm.weight + norm.bias
    return F.rms_norm(x.float(), shape, eps=epsilon).to(x.dtype) * norm.weight


def rotation(model: Decoder, layer: int, positions: Tensor) -> tuple[Tensor, Tensor] | None:
    """Cosines and sines of a layer's rotary embedding, each (T, 1, r), for `positions` (T,); None without one."""
    inverse = model.layers[layer].inverse_frequencies
    if inverse is None:
        return None
    angles = positions.float()[:, None] * inverse[None, :]
    angles = torch.cat([angles, angles], dim=-1)[:, None]
    return angles.cos().to(model.dtype), angles.sin().to(model.dtype)


def rotate(x: Tensor, by: tuple[Tensor, Tensor] | None) -> Tensor:
    """Rotate the first r dimensions of heads x (..., T, heads, D), or (..., heads, D) by one position's angles."""
    if by is None:
        return x
    cos, sin = by
    turned, kept = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    half = turned.shape[-1] // 2
    turned = turned * cos + torch.cat([-turned[..., half:], turned[..., :half]], dim=-1) * sin
    return torch.cat([turned, kept], dim=-1) if kept.shape[-1] else turned


def _normed_heads(model: Decoder, x: Tensor, norm: Norm | None, heads: int) -> Tensor:
    """Queries or keys x (..., heads*D) as (..., heads, D), normed over each head or over all together."""
    width = x.shape[-1] // heads
    if norm is not None and len(norm.weight) != width:
        return normalise(model, x, norm).unflatten(-1, (heads, width))
    return normalise(model, x.unflatten(-1, (heads, width)), norm)


def queries_keys_values(
    model: Decoder, layer: int, x: Tensor, by: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (..., H, D), rotated keys and values (..., G, D) of the residual stream x (..., d)."""
    c, w = model.config, model.layers[layer]
    normed = normalise(model, x, w.attention_norm)
    q = _normed_heads(model, F.linear(normed, w.query, w.query_bias), w.query_norm, c.n_heads)
    k = _normed_heads(model, F.linear(normed, w.key, w.key_bias), w.key_norm, c.n_key_value_heads)
    v = F.linear(normed, w.value, w.value_bias).unflatten(-1, (c.n_key_value_heads, c.d_head))
    return rotate(q, by), rotate(k, by), v


def soft_cap(x: Tensor, cap: float | None) -> Tensor:
    """cap · tanh(x / cap); x itself without a cap."""
    return x if cap is None else cap * torch.tanh(x / cap)


def _behind(before: int, tokens: int, device: torch.device) -> Tensor:
    """Which of all tokens the last `tokens` see: themselves and those before, bool (tokens, before + tokens)."""
    return torch.ones(tokens, before + tokens, dtype=torch.bool, device=device).tril(before)


def _capped_attention(model: Decoder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose scores are soft-capped, q (B, H, t, D) of the last t of T tokens, k and v (B, G, T, D)."""
    c = model.config
    k, v = (x.repeat_interleave(c.n_heads // c.n_key_value_heads, dim=1) for x in (k, v))
    scores = soft_cap(q @ k.transpose(-1, -2) * c.score_scale, c.attention_softcap)
    last, tokens = scores.shape[-2:]
    scores = scores.masked_fill(~_behind(tokens - last, last, q.device), -math.inf)
    return scores.float().softmax(-1).to(v.dtype) @ v


def attention(
    model: Decoder, layer: int, x: Tensor, *, last_only: bool = False, past: Past | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of every token (or of the last alone) over the sequence.

    Args:
        x: residual stream before the layer, (B, T, d), of the tokens behind the past.
        last_only: compute the heads' outputs of the last token alone.
        past: the tokens before them, P of each sequence.

    Returns:
        z (B, T or 1, H, D), rotated keys (B, P+T, G, D), values (B, P+T, G, D).
    """
    tokens, before = x.shape[1], 0 if past is None else past[0].shape[1]
    by = rotation(model, layer, torch.arange(before, before + tokens, device=x.device))
    q, k, v = queries_keys_values(model, layer, x, by)
    if past is not None:
        keys, values, which = past
        k, v = torch.cat([keys[which], k], dim=1), torch.cat([values[which], v], dim=1)
    if last_only:
        q = q[:, -1:]
    q, keys, values = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if model.config.attention_softcap is not None:
        return _capped_attention(model, q, keys, values).transpose(1, 2), k, v
    several = q.shape[2] > 1
    z = F.scaled_dot_product_attention(
        q,
        keys,
        values,
        attn_mask=_behind(before, tokens, x.device) if several and before else None,
        is_causal=several and not before,
        enable_gqa=True,
        scale=model.config.score_scale,
    )
    return z.transpose(1, 2), k, v


def neurons(model: Decoder, layer: int, x: Tensor) -> Tensor:
    """Activations of the MLP's neurons (..., m): what the down-projection reads, for residual x (..., d)."""
    w = model.layers[layer]
    normed = normalise(model, x, w.mlp_norm)
    up = F.linear(normed, w.up, w.up_bias)
    if w.gate is None:
        return _activate(model, up)
    return _activate(model, F.linear(normed, w.gate)) * up


def _activate(model: Decoder, x: Tensor) -> Tensor:
    match model.config.activation:
        case "silu":
            return F.silu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case _:
            return F.gelu(x)


def add_heads(model: Decoder, layer: int, x: Tensor, z: Tensor) -> Tensor:
    """Residual stream after attention: x (..., d) plus the heads' outputs z (..., H, D), projected."""
    w = model.layers[layer]
    return x + normalise(model, F.linear(z.flatten(-2), w.output, w.output_bias), w.attention_post_norm)


def add_neurons(model: Decoder, layer: int, x: Tensor, post: Tensor) -> Tensor:
    """Residual stream after the MLP: x (..., d) plus the neurons' activations post (..., m), projected."""
    w = model.layers[layer]
    return x + normalise(model, F.linear(post, w.down, w.down_bias), w.mlp_post_norm)


def change_neurons(model: Decoder, layer: int, after: Tensor, post: Tensor, change: Tensor) -> Tensor:
    """Residual stream after the MLP, had its neurons written something more.

    Args:
        after: residual stream after the MLP as it was, (B, d).
        post: the neurons' activations as they were, (B, m).
        change: what is added to their projection, (B, N, d).

    Returns:
        (B, N, d).
    """
    w = model.layers[layer]
    if w.mlp_post_norm is None:
        return after[:, None] + change
    written = F.linear(post, w.down, w.down_bias)[:, None]
    moved = normalise(model, written + change, w.mlp_post_norm) - normalise(model, written, w.mlp_post_norm)
    return after[:, None] + moved


def embed(model: Decoder, tokens: Tensor) -> Tensor:
    """Residual stream before layer 0, (B, T, d), of token ids (B, T).

    Raises:
        UserError: the prompts are longer than the model's positions or its sliding window.
    """
    longest, length = model.config.longest, tokens.shape[1]
    if longest is not None and length > longest:
        raise UserError(
            f"a prompt of {length} tokens is longer than the {longest} that this model attends to; shorten it"
        )
    x = F.embedding(tokens, model.embedding)
    if model.config.embedding_scale != 1:
        x = x * torch.tensor(model.config.embedding_scale, dtype=x.dtype)
    return x if model.positions is None else x + model.positions[:length]


def mlp_input(model: Decoder, before: Tensor, after: Tensor) -> Tensor:
    """What the MLP reads: the residual stream after attention, or before it where both work in parallel."""
    return before if model.config.parallel else after


def run_layers(
    model: Decoder,
    x: Tensor,
    start: int = 0,
    stop: int | None = None,
    *,
    on_neurons: LayerHook | None = None,
    on_heads: LayerHook | None = None,
    last_only: bool = False,
    past: Sequence[Past] | None = None,
    on_keys_values: Callable[[Tensor, Tensor], None] | None = None,
) -> Tensor:
    """Run layers start..stop-1 over whole sequences.

    Args:
        x: residual stream before layer `start`, (B, T, d).
        on_neurons: called with (layer, post (B, T, m)); what it returns is used.
        on_heads: called with (layer, z (B, T, H, D)); what it returns is used.
        last_only: in the last layer that runs, compute the last token alone. The hooks then see T = 1.
        past: of every layer, the tokens before these.
        on_keys_values: called in every layer with the rotated keys and the values of all tokens, (B, P+T, G, D).

    Returns:
        Residual stream after layer stop-1, (B, T, d), or (B, 1, d) with `last_only`.
    """
    stop = model.config.n_layers if stop is None else stop
    for layer in range(start, stop):
        only = last_only and layer == stop - 1
        z, keys, values = attention(model, layer, x, last_only=only, past=past[layer] if past else None)
        if on_keys_values:
            on_keys_values(keys, values)
        if only:
            x = x[:, -1:]
        after = add_heads(model, layer, x, on_heads(layer, z) if on_heads else z)
        post = neurons(model, layer, mlp_input(model, x, after))
        x = add_neurons(model, layer, after, on_neurons(layer, post) if on_neurons else post)
    return x


def final_residual(model: Decoder, x: Tensor) -> Tensor:
    """The residual stream after the last layer, x (..., d), as the unembedding reads it, float32."""
    return normalise(model, x.float(), model.final_norm)


def unembed(model: Decoder, normed: Tensor) -> Tensor:
    """Logits (..., V), float32, of what `final_residual` gives.

    Logits rounded to bfloat16 tie, and hide the effects of single neurons.
    """
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    # Where the weights have 8 bits, products of 11 lose nothing, and cost a tenth on a GPU.
    flags.allow_tf32 = before or model.dtype != torch.float32
    try:
        z = F.linear(normed, model.unembedding)
    finally:
        flags.allow_tf32 = before
    return soft_cap(z, model.config.logit_softcap)


def logits(model: Decoder, x: Tensor) -> Tensor:
    """Logits (..., V), float32, of the residual stream after the last layer, x (..., d)."""
    return unembed(model, final_residual(model, x))
