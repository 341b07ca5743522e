"""The forward pass of a decoder-only transformer.

Hooks are functions: `on_neurons(layer, post)` sees and may replace the activations of the MLP neurons
(TransformerLens `hook_post`), `on_heads(layer, z)` the outputs of the attention heads (`hook_z`). Shapes:

    B prompts, T tokens, d width of the residual stream, m MLP neurons,
    H heads, G key/value heads, D width of a head, V vocabulary
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.rotary import rotate, rotation
from form_invariance.model.sizes import DecoderConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}
"""The activation functions that the engine computes."""

LayerHook = Callable[[int, Tensor], Tensor]

Past = tuple[Tensor, Tensor, Tensor]
"""Rotated keys and values (n, P, G, D) of n prefixes in one layer, and each sequence's prefix as index (B,)."""


@dataclass
class Norm:
    """Weight (d,) of a norm, and the bias (d,) of LayerNorm; RMSNorm has none."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass
class LayerWeights:
    """Weights of one layer; None where the architecture has no such weight. Matrices are (out, in)."""

    query: Tensor  # (H*D, d)
    key: Tensor  # (G*D, d)
    value: Tensor  # (G*D, d)
    output: Tensor  # (d, H*D)
    up: Tensor  # (m, d)
    down: Tensor  # (d, m)
    gate: Tensor | None = None  # (m, d)
    attention_norm: Norm | None = None
    mlp_norm: Norm | None = None
    attention_post_norm: Norm | None = None  # applied to what the heads write to the residual stream
    mlp_post_norm: Norm | None = None  # applied to what the neurons write to it
    query_norm: Norm | None = None  # (D,) for each head, or (H*D,) for all heads together
    key_norm: Norm | None = None  # (D,) or (G*D,)
    query_bias: Tensor | None = None  # (H*D,)
    key_bias: Tensor | None = None  # (G*D,)
    value_bias: Tensor | None = None  # (G*D,)
    output_bias: Tensor | None = None  # (d,)
    gate_bias: Tensor | None = None  # (m,)
    up_bias: Tensor | None = None  # (m,)
    down_bias: Tensor | None = None  # (d,), or (T, d) if it differs between T positions
    inverse_frequencies: Tensor | None = None  # (r/2,); the rotary embedding rotates r <= D dimensions


@dataclass
class Decoder:
    """Weights and configuration of one model."""

    config: DecoderConfig
    embedding: Tensor  # (V, d)
    layers: list[LayerWeights]
    final_norm: Norm
    unembedding: Tensor  # (V, d), float32 in every precision
    positions: Tensor | None = None  # (longest, d): learned positions
    tf32: bool = False  # whether TF32, a switch of torch for all models, is to be on while this one runs

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        return self.embedding.dtype


def normalise(model: Decoder, x: Tensor, norm: Norm | None) -> Tensor:
    """RMSNorm or LayerNorm over the last axis, with statistics in float32; x itself if there is no norm."""
    if norm is None:
        return x
    shape, epsilon, full = (x.shape[-1],), model.config.norm_epsilon, x.float()
    scaled = (F.rms_norm if norm.bias is None else F.layer_norm)(full, shape, eps=epsilon)
    scaled = scaled.to(x.dtype) * norm.weight
    return scaled if norm.bias is None else scaled + norm.bias


def _normed_heads(model: Decoder, x: Tensor, norm: Norm | None, heads: int) -> Tensor:
    """Queries or keys x (..., heads*D) as (..., heads, D), normalised over each head or over all together."""
    width = x.shape[-1] // heads
    if norm is not None and len(norm.weight) != width:
        return normalise(model, x, norm).unflatten(-1, (heads, width))
    return normalise(model, x.unflatten(-1, (heads, width)), norm)


def queries_keys_values(model: Decoder, layer: int, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rotated queries (..., H, D), rotated keys and values (..., G, D) of the residual stream x (..., d).

    Args:
        positions: (T,) for x (B, T, d); (1,) if all rows of x are at one position.
    """
    c, w = model.config, model.layers[layer]
    normed = normalise(model, x, w.attention_norm)
    q = _normed_heads(model, F.linear(normed, w.query, w.query_bias), w.query_norm, c.n_heads)
    k = _normed_heads(model, F.linear(normed, w.key, w.key_bias), w.key_norm, c.n_key_value_heads)
    v = F.linear(normed, w.value, w.value_bias).unflatten(-1, (c.n_key_value_heads, c.d_head))
    by = rotation(w.inverse_frequencies, positions, model.dtype)
    return rotate(q, by), rotate(k, by), v


def soft_cap(x: Tensor, cap: float | None) -> Tensor:
    """cap · tanh(x / cap); x itself if there is no cap."""
    return x if cap is None else cap * torch.tanh(x / cap)


def _causal_mask(before: int, tokens: int, device: torch.device) -> Tensor:
    """Causal mask of the last `tokens` tokens over all tokens, bool (tokens, before + tokens)."""
    return torch.ones(tokens, before + tokens, dtype=torch.bool, device=device).tril(before)


def _capped_attention(model: Decoder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with soft-capped scores: q (B, H, t, D) of the last t of T tokens, k and v (B, G, T, D)."""
    c = model.config
    k, v = (x.repeat_interleave(c.n_heads // c.n_key_value_heads, dim=1) for x in (k, v))
    scores = soft_cap(q @ k.transpose(-1, -2) * c.score_scale, c.attention_softcap)
    last, tokens = scores.shape[-2:]
    scores = scores.masked_fill(~_causal_mask(tokens - last, last, q.device), -math.inf)
    return scores.float().softmax(-1).to(v.dtype) @ v


def attention(
    model: Decoder, layer: int, x: Tensor, *, last_only: bool = False, past: Past | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Causal attention of every token, or of the last token alone.

    Args:
        x: residual stream before the layer, (B, T, d), of the tokens after the past.
        last_only: compute z for the last token alone.
        past: the P earlier tokens of each sequence.

    Returns:
        z (B, T or 1, H, D), rotated keys (B, P+T, G, D), values (B, P+T, G, D).
    """
    tokens, before = x.shape[1], 0 if past is None else past[0].shape[1]
    q, k, v = queries_keys_values(model, layer, x, torch.arange(before, before + tokens, device=x.device))
    if past is not None:
        keys, values, which = past
        k, v = torch.cat([keys[which], k], dim=1), torch.cat([values[which], v], dim=1)
    if last_only:
        q = q[:, -1:]
    q, keys, values = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    if model.config.attention_softcap is not None:
        return _capped_attention(model, q, keys, values).transpose(1, 2), k, v
    several, scale = q.shape[2] > 1, model.config.score_scale
    mask = _causal_mask(before, tokens, x.device) if several and before else None
    z = F.scaled_dot_product_attention(
        q, keys, values, attn_mask=mask, is_causal=several and not before, enable_gqa=True, scale=scale
    )
    return z.transpose(1, 2), k, v


def neurons(model: Decoder, layer: int, x: Tensor) -> Tensor:
    """Activations of the MLP neurons (..., m): the input of the down-projection. x: residual stream (..., d)."""
    w = model.layers[layer]
    normed = normalise(model, x, w.mlp_norm)
    up, activate = F.linear(normed, w.up, w.up_bias), ACTIVATIONS[model.config.activation]
    return activate(up) if w.gate is None else activate(F.linear(normed, w.gate, w.gate_bias)) * up


def after_attention(model: Decoder, layer: int, x: Tensor, z: Tensor) -> Tensor:
    """The residual stream x (..., d) plus what the heads' outputs z (..., H, D) write to it."""
    w = model.layers[layer]
    return x + normalise(model, F.linear(z.flatten(-2), w.output, w.output_bias), w.attention_post_norm)


def after_neurons(model: Decoder, layer: int, after: Tensor, post: Tensor) -> Tensor:
    """The residual stream after attention (..., d) plus what neurons write, with activations post (..., m)."""
    w = model.layers[layer]
    if w.down_bias is not None and w.down_bias.dim() == 2:
        written = F.linear(post, w.down) + w.down_bias
    else:
        written = F.linear(post, w.down, w.down_bias)
    return after + normalise(model, written, w.mlp_post_norm)


def finish_layer(
    model: Decoder, layer: int, x: Tensor, z: Tensor, on_neurons: LayerHook | None, on_heads: LayerHook | None
) -> Tensor:
    """The residual stream after a layer, from that before it, x (..., d), and its heads' outputs z (..., H, D)."""
    after = after_attention(model, layer, x, on_heads(layer, z) if on_heads else z)
    post = neurons(model, layer, x if model.config.parallel else after)
    return after_neurons(model, layer, after, on_neurons(layer, post) if on_neurons else post)


def embed(model: Decoder, tokens: Tensor) -> Tensor:
    """Residual stream before layer 0, (B, T, d), of token ids (B, T) without padding.

    Raises:
        ValueError: a token is padding; batches have one length (`model.batches`).
        UserError: the prompts are longer than `DecoderConfig.longest`.
    """
    if (tokens < 0).any():
        raise ValueError("padding would run through the model; batch prompts by length")
    longest, length = model.config.longest, tokens.shape[1]
    if length > longest:
        raise UserError(f"a prompt has {length} tokens, but this model takes {longest} at most; shorten it")
    x = F.embedding(tokens, model.embedding)
    if model.config.embedding_scale != 1:
        x = x * torch.tensor(model.config.embedding_scale, dtype=x.dtype)
    return x if model.positions is None else x + model.positions[:length]


def run_layers(
    model: Decoder,
    x: Tensor,
    start: int = 0,
    stop: int | None = None,
    *,
    on_neurons: LayerHook | None = None,
    on_heads: LayerHook | None = None,
    last_only: bool = False,
    past: Sequence[Past | None] | None = None,
    on_keys_values: Callable[[Tensor, Tensor], None] | None = None,
) -> Tensor:
    """Run layers start..stop-1 over whole sequences.

    Args:
        x: residual stream before layer `start`, (B, T, d).
        on_neurons: called with (layer, post (B, T, m)); its result replaces post.
        on_heads: called with (layer, z (B, T, H, D)); its result replaces z.
        last_only: in the last layer that runs, compute the last token alone. The hooks then get T = 1.
        past: the earlier tokens, for every layer.
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
        x = finish_layer(model, layer, x, z, on_neurons, on_heads)
    return x


def final_residual(model: Decoder, x: Tensor) -> Tensor:
    """Apply the final norm to the residual stream after the last layer, x (..., d). Returns float32."""
    return normalise(model, x.float(), model.final_norm)


def unembed(model: Decoder, normed: Tensor, rows: Tensor) -> Tensor:
    """Logits (..., N, n) of some tokens from the result of `final_residual`, (..., N, d).

    They are float32: in bfloat16, rounding would make logits equal and hide the effects of single neurons.

    Args:
        rows: the tokens' rows of the unembedding, (n, d) for all sequences, or (..., n, d).
    """
    flags = torch.backends.cuda.matmul
    before = flags.allow_tf32
    # bfloat16 weights have 8 significant bits and TF32 has 11, so TF32 loses nothing and is ten times faster.
    flags.allow_tf32 = before or model.dtype != torch.float32
    try:
        z = normed @ rows.transpose(-1, -2)
    finally:
        flags.allow_tf32 = before
    return soft_cap(z, model.config.logit_softcap)


def sum_exp(z: Tensor, largest: Tensor) -> Tensor:
    """Sum of exp(z - largest) over logits z (n, V), (n,); z is overwritten: a copy takes as long as the sum."""
    # PyTorch computes powers of two several times faster than those of e.
    return z.sub_(largest).mul_(1 / math.log(2)).exp2_().sum(-1)


def logits(model: Decoder, x: Tensor) -> Tensor:
    """Logits (..., V), float32, of the residual stream after the last layer, x (..., d)."""
    return unembed(model, final_residual(model, x), model.unembedding)
