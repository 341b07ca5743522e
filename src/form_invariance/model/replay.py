"""Replay: run only the last token through the late layers, for thousands of variants at once.

A change at the last token alters no key or value of an earlier position. So one ordinary pass per prompt
caches the keys and values of every late layer; after that, any intervention at the last token costs one
token through the layers above it, whatever the prompt's length. Nothing is approximated.

Reusing keys and values for patching has precedents: TransformerLens's frozen key/value cache and
auto-circuit's tail divergence, both from layer 0 and from the first position where two prompts differ.
Here the cache is per prompt, the suffix is one token, the run restarts at the patched layer, and the
batch axis runs over variants (neurons). Shapes as in `decoder`, and N variants of each prompt.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from form_invariance.model.decoder import (
    Decoder,
    LayerHook,
    add_heads,
    add_neurons,
    attention,
    embed,
    final_residual,
    mlp_input,
    neurons,
    queries_keys_values,
    rotation,
    run_layers,
    soft_cap,
    unembed,
)
from form_invariance.model.memory import working_bytes

_READOUT_BYTES = 2**27
"""Memory that one piece of logits may take; a piece this small also stays near the processor's cache."""


@dataclass
class LastTokenCache:
    """What replay needs of a batch of prompts of one length."""

    first: int  # first late layer
    position: int  # index of the last token, T-1
    keys: list[Tensor]  # per late layer (B, G, D, T-1), rotated, without the last token's
    values: list[Tensor]  # per late layer (B, G, T-1, D)
    residual: Tensor  # (late layers + 1, B, d): before each late layer, and after the last
    neurons: Tensor  # (late layers, B, m): the last token's activations


def build_cache(model: Decoder, tokens: Tensor, first: int) -> LastTokenCache:
    """One ordinary pass over the prompts.

    Args:
        tokens: token ids (B, T), BOS included, all prompts of one length.
        first: the first late layer.
    """
    with torch.no_grad():
        return continue_cache(model, run_layers(model, embed(model, tokens), stop=first), first)


def continue_cache(model: Decoder, x: Tensor, first: int) -> LastTokenCache:
    """The same from the residual stream before the first late layer, x (B, T, d)."""
    tokens = x.shape[1]
    keys, values, residual, activations = [], [], [x[:, -1]], []
    last_layer = model.config.n_layers - 1
    with torch.no_grad():
        for layer in range(first, model.config.n_layers):
            z, k, v = attention(model, layer, x, last_only=layer == last_layer)
            keys.append(k[:, :-1].permute(0, 2, 3, 1).contiguous())
            values.append(v[:, :-1].transpose(1, 2).contiguous())
            before = x[:, -1:] if layer == last_layer else x
            after = add_heads(model, layer, before, z)
            post = neurons(model, layer, mlp_input(model, before, after))
            x = add_neurons(model, layer, after, post)
            residual.append(x[:, -1])
            activations.append(post[:, -1].clone())
    return LastTokenCache(
        first=first,
        position=tokens - 1,
        keys=keys,
        values=values,
        residual=torch.stack(residual),
        neurons=torch.stack(activations),
    )


def select(cache: LastTokenCache, prompts: slice | Tensor) -> LastTokenCache:
    """The cache of some of its prompts."""
    return LastTokenCache(
        first=cache.first,
        position=cache.position,
        keys=[k[prompts] for k in cache.keys],
        values=[v[prompts] for v in cache.values],
        residual=cache.residual[:, prompts],
        neurons=cache.neurons[:, prompts],
    )


def _weights(model: Decoder, layer: int, x: Tensor, cache: LastTokenCache) -> tuple[Tensor, Tensor]:
    """Attention weights of N variants x (B, N, d) of the last token, and their own values.

    Each variant attends to the prompt's cached positions and to itself, never to another variant. The
    grouped queries meet the cached keys as they are, never expanded to all heads.

    Returns:
        Weights (B, G, N*H/G, T), values (B, N, G, D).
    """
    c = model.config
    prompts, variants = x.shape[:2]
    by = rotation(model, layer, torch.tensor([cache.position], device=x.device))
    q, k, v = queries_keys_values(model, layer, x, by)
    per_group = c.n_heads // c.n_key_value_heads
    q = q.unflatten(2, (c.n_key_value_heads, per_group)) * c.score_scale  # (B, N, G, R, D)
    own = (q * k[:, :, :, None]).sum(-1, keepdim=True)  # (B, N, G, R, 1)
    rows = q.permute(0, 2, 1, 3, 4).reshape(prompts, c.n_key_value_heads, variants * per_group, c.d_head)
    scores = rows @ cache.keys[layer - cache.first]  # (B, G, N*R, T-1)
    own_rows = own.permute(0, 2, 1, 3, 4).reshape(*scores.shape[:-1], 1)
    scores = soft_cap(torch.cat([scores, own_rows], dim=-1), c.attention_softcap)
    return scores.float().softmax(-1).to(x.dtype), v


def _attend(model: Decoder, layer: int, x: Tensor, cache: LastTokenCache) -> Tensor:
    """Heads' outputs (B, N, H, D) of N variants x (B, N, d) of the last token."""
    c = model.config
    prompts, variants = x.shape[:2]
    weights, v = _weights(model, layer, x, cache)
    per_group = c.n_heads // c.n_key_value_heads
    earlier = weights[..., :-1] @ cache.values[layer - cache.first]  # (B, G, N*R, D)
    shape = (prompts, c.n_key_value_heads, variants, per_group)
    z = earlier.view(*shape, c.d_head).permute(0, 2, 1, 3, 4)
    z = z + weights[..., -1].view(*shape, 1).permute(0, 2, 1, 3, 4) * v[:, :, :, None]
    return z.reshape(prompts, variants, c.n_heads, c.d_head)


def last_token_attention(model: Decoder, layer: int, cache: LastTokenCache) -> Tensor:
    """What every head of a late layer attends to at the last token of the ordinary pass, (B, H, T)."""
    weights, _ = _weights(model, layer, cache.residual[layer - cache.first][:, None], cache)
    return weights.flatten(1, 2)


def replay(
    model: Decoder,
    cache: LastTokenCache,
    x: Tensor,
    start: int,
    *,
    on_neurons: LayerHook | None = None,
    on_heads: LayerHook | None = None,
) -> Tensor:
    """Run variants of the last token through layers start.. to the end.

    Args:
        cache: of the same prompts.
        x: residual stream of the last token before layer `start`, (B, N, d).
        start: a late layer, or the number of layers (then x is returned).
        on_neurons: called with (layer, post (B, N, m)); what it returns is used.
        on_heads: called with (layer, z (B, N, H, D)); what it returns is used.

    Returns:
        Residual stream after the last layer, (B, N, d).
    """
    for layer in range(start, model.config.n_layers):
        z = _attend(model, layer, x, cache)
        after = add_heads(model, layer, x, on_heads(layer, z) if on_heads else z)
        post = neurons(model, layer, mlp_input(model, x, after))
        x = add_neurons(model, layer, after, on_neurons(layer, post) if on_neurons else post)
    return x


def log_probabilities(model: Decoder, x: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of a few tokens, without keeping the vocabulary's.

    Args:
        x: residual stream after the last layer, (B, N, d).
        tokens: token ids to read out for each prompt, (B, R).

    Returns:
        (B, N, R), float32.
    """
    prompts, variants, width = x.shape
    rows = final_residual(model, x).reshape(-1, width)
    wanted = tokens[:, None].expand(prompts, variants, -1).reshape(len(rows), -1)
    step = max(1, working_bytes(model.device, _READOUT_BYTES) // (4 * model.config.vocabulary))
    pieces = []
    for start in range(0, len(rows), step):
        logits = unembed(model, rows[start : start + step])
        picked = logits.gather(1, wanted[start : start + step])
        pieces.append(picked - logits.logsumexp(1, keepdim=True))
    return torch.cat(pieces).view(prompts, variants, -1)
