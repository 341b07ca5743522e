"""Replay: run only the last token through the late layers, in thousands of runs per prompt at once.

A change at the last token alters no key or value of an earlier position. So one ordinary pass per prompt caches
the keys and values of every late layer. After that, an intervention at the last token costs one token through the
layers above it, whatever the prompt's length. Nothing is approximated.

Reusing keys and values for patching has precedents: TransformerLens's frozen key/value cache and auto-circuit's
tail divergence, both from layer 0 and from the first position where two prompts differ. Here each prompt has its
own cache, the suffix is one token, a run starts at the patched layer, and the batch axis is over neurons. Shapes
are those of `decoder`, with N runs of each prompt.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import (
    Decoder,
    LayerHook,
    Past,
    embed,
    final_residual,
    finish_layer,
    normalise,
    queries_keys_values,
    run_layers,
    soft_cap,
    sum_exp,
    unembed,
)
from form_invariance.model.memory import working_bytes
from form_invariance.model.prefixes import for_each, run_beginning, shared_beginning

_PROMPTS = 256
"""Prompts of a batch, where only the activations of the last token are kept."""
_PASS_BYTES = 2**26
"""Memory on a CPU for the activations of one layer's neurons; a pass holds a few such tensors at once."""
_READOUT_BYTES = 2**22
"""Memory for one piece of the logits on a CPU: it must stay in the processor's cache until it is summed."""


@dataclass
class LastTokenCache:
    """Everything that replay needs of a batch of prompts of one length."""

    first: int  # first late layer
    position: int  # index of the last token, T-1
    keys: list[Tensor]  # per late layer (B, G, D, T-1), rotated, without the last token
    values: list[Tensor]  # per late layer (B, G, T-1, D)
    residual: Tensor  # (late layers + 1, B, d): before each late layer, and after the last
    neurons: Tensor  # (late layers, B, m): activations at the last token


@torch.no_grad()
def build_cache(model: Decoder, tokens: Tensor, first: int) -> LastTokenCache:
    """Run the prompts once, in pieces that fit into memory; a beginning that they share runs once for all.

    Args:
        tokens: token ids (B, T), BOS included, all prompts of one length.
        first: the first late layer.
    """
    shared = shared_beginning(tokens)
    past = run_beginning(model, tokens[:1, :shared])[1] if shared else []
    at_once = working_bytes(model.device, _PASS_BYTES) // (4 * model.config.d_mlp * (tokens.shape[1] - shared))
    caches = []
    for rows in tokens.split(max(1, at_once)):
        each = for_each(past, len(rows))
        x = run_layers(model, embed(model, rows)[:, shared:], stop=first, past=each)
        caches.append(continue_cache(model, x, first, each))
    return _joined(caches)


@torch.no_grad()
def continue_cache(model: Decoder, x: Tensor, first: int, past: Sequence[Past] = ()) -> LastTokenCache:
    """Build the cache from the residual stream before the first late layer, x (B, T, d).

    Args:
        past: the tokens before x, for every layer (`run_layers`).
    """
    keys, values, residual, activations = [], [], [x[:, -1]], []
    position = x.shape[1] - 1 + (past[0][0].shape[1] if past else 0)

    def keep_keys_values(k: Tensor, v: Tensor) -> None:
        keys.append(k[:, :-1].permute(0, 2, 3, 1).contiguous())
        values.append(v[:, :-1].transpose(1, 2).contiguous())

    def keep_neurons(_: int, post: Tensor) -> Tensor:
        activations.append(post[:, -1].clone())
        return post

    for layer in range(first, model.config.n_layers):
        last = layer == model.config.n_layers - 1
        x = run_layers(
            model,
            x,
            layer,
            layer + 1,
            last_only=last,
            on_neurons=keep_neurons,
            on_keys_values=keep_keys_values,
            past=past,
        )
        residual.append(x[:, -1])
    return LastTokenCache(first, position, keys, values, torch.stack(residual), torch.stack(activations))


def _joined(caches: Sequence[LastTokenCache]) -> LastTokenCache:
    """The cache of the prompts of several caches."""
    if len(caches) == 1:
        return caches[0]
    return replace(
        caches[0],
        keys=[torch.cat(parts) for parts in zip(*(cache.keys for cache in caches), strict=True)],
        values=[torch.cat(parts) for parts in zip(*(cache.values for cache in caches), strict=True)],
        residual=torch.cat([cache.residual for cache in caches], dim=1),
        neurons=torch.cat([cache.neurons for cache in caches], dim=1),
    )


def select(cache: LastTokenCache, prompts: slice | Tensor) -> LastTokenCache:
    """The cache of some of its prompts."""
    return replace(
        cache,
        keys=[k[prompts] for k in cache.keys],
        values=[v[prompts] for v in cache.values],
        residual=cache.residual[:, prompts],
        neurons=cache.neurons[:, prompts],
    )


def attend(model: Decoder, layer: int, x: Tensor, cache: LastTokenCache) -> Tensor:
    """Outputs of the heads (B, N, H, D) for N runs x (B, N, d) of the last token.

    Each run attends to the prompt's cached positions and to itself, never to another run. The grouped queries are
    multiplied with the cached keys directly; the keys are never expanded to all heads.
    """
    c = model.config
    prompts, runs = x.shape[:2]
    q, k, v = queries_keys_values(model, layer, x, torch.tensor([cache.position], device=x.device))
    per_group = c.n_heads // c.n_key_value_heads
    q = q.unflatten(2, (c.n_key_value_heads, per_group)) * c.score_scale  # (B, N, G, R, D)
    to_itself = (q * k[:, :, :, None]).sum(-1, keepdim=True)  # (B, N, G, R, 1)
    rows = q.permute(0, 2, 1, 3, 4).reshape(prompts, c.n_key_value_heads, runs * per_group, c.d_head)
    scores = rows @ cache.keys[layer - cache.first]  # (B, G, N*R, T-1)
    own_rows = to_itself.permute(0, 2, 1, 3, 4).reshape(*scores.shape[:-1], 1)
    scores = soft_cap(torch.cat([scores, own_rows], dim=-1), c.attention_softcap)
    weights = scores.float().softmax(-1).to(x.dtype)  # (B, G, N*R, T)
    z = weights[..., :-1] @ cache.values[layer - cache.first]  # (B, G, N*R, D)
    z, to_itself = (part.unflatten(2, (runs, -1)).transpose(1, 2) for part in (z, weights[..., -1:]))
    return (z + to_itself * v[:, :, :, None]).flatten(2, 3)


def replay(
    model: Decoder,
    cache: LastTokenCache,
    x: Tensor,
    start: int,
    *,
    on_neurons: LayerHook | None = None,
) -> Tensor:
    """Run the last token from layer `start` to the end, N times for each prompt.

    Args:
        cache: the cache of the same prompts.
        x: residual stream of the last token before layer `start`, (B, N, d).
        start: a late layer, or the number of layers (then x is returned).
        on_neurons: called with (layer, post (B, N, m)); its result replaces post.

    Returns:
        Residual stream after the last layer, (B, N, d).
    """
    for layer in range(start, model.config.n_layers):
        x = finish_layer(model, layer, x, attend(model, layer, x, cache), on_neurons, None)
    return x


def change_neurons(model: Decoder, layer: int, after: Tensor, post: Tensor, change: Tensor) -> Tensor:
    """Residual stream after the MLP if `change` is added to the projection of its neurons.

    Args:
        after: residual stream after the unchanged MLP, (B, d).
        post: activations of the unchanged neurons, (B, m).
        change: (B, N, d) for N changes of each prompt.

    Returns:
        (B, N, d).
    """
    w = model.layers[layer]
    if w.mlp_post_norm is None:
        return after[:, None] + change
    written = F.linear(post, w.down, w.down_bias)[:, None]
    moved = normalise(model, written + change, w.mlp_post_norm) - normalise(model, written, w.mlp_post_norm)
    return after[:, None] + moved


def replay_neurons(model: Decoder, cache: LastTokenCache, on_neurons: LayerHook) -> Tensor:
    """Run the last token with other neurons in all late layers, N times for each prompt.

    The first late layer's neurons read the same in all runs, so their activations are those of the cache.

    Args:
        on_neurons: called with (layer, post (B, 1 or N, m)); its result (B, N, m) replaces post.

    Returns:
        Residual stream after the last layer, (B, N, d).
    """
    first, post = cache.first, cache.neurons[0]
    change = F.linear(on_neurons(first, post[:, None]) - post[:, None], model.layers[first].down)
    after = change_neurons(model, first, cache.residual[1], post, change)
    return replay(model, cache, after, first + 1, on_neurons=on_neurons)


def _log_total(model: Decoder, rows: Tensor, blocks: Sequence[Tensor]) -> Tensor:
    """Log of the sum of exp over all logits, (n,), for rows (n, d) of `final_residual`.

    Args:
        blocks: all rows of the unembedding, in blocks.
    """
    first = unembed(model, rows, blocks[0])
    # The largest logit of one block suffices: others seldom exceed it by 88, where exp overflows in float32.
    largest = first.amax(-1, keepdim=True)
    total = sum_exp(first, largest)
    for block in blocks[1:]:
        total += sum_exp(unembed(model, rows, block), largest)
    if total.isfinite().all():
        return largest[:, 0] + total.log()
    return torch.stack([unembed(model, rows, block).logsumexp(-1) for block in blocks]).logsumexp(0)


def log_probabilities(model: Decoder, x: Tensor, tokens: Tensor) -> Tensor:
    """Log-probabilities of a few tokens, without storing those of the whole vocabulary.

    Args:
        x: residual stream after the last layer, (B, N, d).
        tokens: ids of R tokens for each prompt, (B, R).

    Returns:
        (B, N, R), float32.
    """
    normed = final_residual(model, x)
    rows = normed.flatten(0, 1)
    cells = working_bytes(model.device, _READOUT_BYTES) // 4
    pieces = rows.chunk(max(1, round(len(rows) / math.isqrt(cells))))
    blocks = model.unembedding.split(max(1, cells // len(pieces[0])))
    total = torch.cat([_log_total(model, piece, blocks) for piece in pieces]).view(*x.shape[:2], 1)
    return unembed(model, normed, model.unembedding[tokens]) - total


@torch.no_grad()
def last_token_neurons(model: Decoder, tokens: Tensor, first: int) -> Tensor:
    """The last token's activations in the late layers, (late layers, prompts, m), of prompts (prompts, T)."""
    rows, batches = zip(*by_length(tokens, _PROMPTS), strict=True)
    return in_order(rows, [build_cache(model, chunk, first).neurons for chunk in batches], dim=1)
