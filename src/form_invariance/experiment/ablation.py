"""Mean ablation of late neurons at all positions, and the start of every intervention (method, section 7)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.experiment.means import MeanCache, aligned
from form_invariance.experiment.readout import Readout, read_out, stack
from form_invariance.model.batches import by_length
from form_invariance.model.decoder import (
    Decoder,
    LayerHook,
    after_attention,
    after_neurons,
    attention,
    embed,
    neurons,
    run_layers,
)
from form_invariance.model.prefixes import for_each, run_beginning, shared_beginning
from form_invariance.model.replay import LastTokenCache, continue_cache

BATCH = 100
"""Prompts of a batch, where a stage has hundreds."""


@dataclass
class Part:
    """The unmodified run of a batch of prompts up to the first late layer, shared by all interventions."""

    rows: Tensor  # (B,): their indices among all prompts
    tokens: Tensor  # (B, T)
    residual: Tensor  # (B, T, d) before the first late layer
    last_token: LastTokenCache
    answers: Tensor  # (B,)


@torch.no_grad()
def start_runs(model: Decoder, tokens: Tensor, answers: Tensor, first: int, size: int = BATCH) -> Iterator[Part]:
    """Run once what no intervention changes, in batches of prompts of one length.

    A beginning that the prompts of a batch share, such as worked examples, runs once for the batch.

    Args:
        tokens: (P, T), shorter prompts padded on the left (`model.batches`).
        answers: token ids, (P,).
    """
    for rows, batch_tokens in by_length(tokens, size):
        shared = shared_beginning(batch_tokens)
        after, past = run_beginning(model, batch_tokens[:1, :shared]) if shared else ([], [])
        each = for_each(past, len(batch_tokens))
        x = embed(model, batch_tokens)
        rest = run_layers(model, x[:, shared:], stop=first, past=each)
        begun = after[first - 1].expand(len(batch_tokens), -1, -1) if shared and first else x[:, :shared]
        cache = continue_cache(model, rest, first, each)
        yield Part(rows, batch_tokens, torch.cat([begun, rest], dim=1), cache, answers[rows])


def ablate_all_positions(
    model: Decoder, part: Part, masks: Tensor, means: MeanCache, bos: bool, center: bool
) -> Readout:
    """Replace neurons of the late layers by their means at every token position but BOS.

    What no set changes runs once for all sets: BOS, and everything up to the first late layer's neurons. If a set
    leaves at most half of the neurons, only these run (`_without`).

    Args:
        masks: True where a neuron is ablated, (sets, late layers, m).
        bos: whether the prompts open with BOS.

    Returns:
        Readout of shape (sets, B).
    """
    first, tokens = part.last_token.first, part.residual.shape[1]
    if tokens == bos:
        return stack([run_unmodified(model, part, center)[None]] * len(masks), dim=0)
    late_means = [aligned(mean, tokens) for mean in means.neurons[first:]]
    segments = list(_segments(model, part, int(bos)))
    before = _past_of(part.last_token, int(bos))
    readouts = []
    for mask in masks:
        few = bool((2 * (~mask).sum(1) <= mask.shape[1]).all())
        past = before
        for segment in segments:
            here = [mean[segment.begin : segment.end] for mean in late_means]
            smaller = _without(model, first, mask, here) if few else model
            on_neurons = None if few else _replace(first, mask, here)
            post = on_neurons(first, segment.post) if on_neurons else segment.post[..., ~mask[0]]
            rows = torch.arange(len(post), device=post.device)  # keys of one sequence serve all prompts
            late_past = [None, *((keys, values, rows % len(keys)) for keys, values in past)]
            past = []

            def keep(keys: Tensor, values: Tensor, past: list[tuple[Tensor, Tensor]] = past) -> None:
                past.append((keys, values))

            x = run_layers(
                smaller,
                after_neurons(smaller, first, segment.after, post),
                first + 1,
                on_neurons=on_neurons,
                last_only=True,
                past=[None] * first + late_past,
                on_keys_values=keep,
            )
        readouts.append(read_out(model, x[:, -1], part.answers, center)[None])
    return stack(readouts, dim=0)


@dataclass
class _Segment:
    """Tokens of a batch that run together, up to the first late layer's neurons."""

    begin: int  # position of its first token
    end: int  # position after its last token
    after: Tensor  # (b, t, d): residual stream between attention and neurons
    post: Tensor  # (b, t, m)


def _segments(model: Decoder, part: Part, begin: int) -> Iterator[_Segment]:
    """The tokens from position `begin` on.

    If the prompts share most of their tokens, such as worked examples, these form a segment that runs as one
    sequence: no token attends to a later one, and prompts of one length have the same means at a position.
    """
    first, x = part.last_token.first, part.residual
    z, _, _ = attention(model, first, x)
    after = after_attention(model, first, x, z)
    read = x if model.config.parallel else after
    cut = max(begin, shared_beginning(part.tokens))
    for rows, start, end in ((slice(1), begin, cut), (slice(None), cut, x.shape[1])):
        if start < end:
            yield _Segment(start, end, after[rows, start:end], neurons(model, first, read[rows, start:end]))


def _past_of(cache: LastTokenCache, tokens: int) -> list[tuple[Tensor, Tensor]]:
    """Keys and values (B, tokens, G, D) of the first tokens, in every late layer but the first."""
    return [
        (keys[..., :tokens].permute(0, 3, 1, 2), values[:, :, :tokens].transpose(1, 2))
        for keys, values in zip(cache.keys[1:], cache.values[1:], strict=True)
    ]


def _without(model: Decoder, first: int, mask: Tensor, means: Sequence[Tensor]) -> Decoder:
    """The model without the ablated neurons: what they write at their means is a bias of the down-projection.

    Args:
        mask: True where a neuron is ablated, (late layers, m).
        means: means by position, (T, m) for each late layer.
    """
    layers = list(model.layers)
    for layer, (ablated, mean) in enumerate(zip(mask, means, strict=True), first):
        w, kept = layers[layer], (~ablated).nonzero()[:, 0]
        layers[layer] = replace(
            w,
            up=w.up[kept],
            up_bias=None if w.up_bias is None else w.up_bias[kept],
            gate=None if w.gate is None else w.gate[kept],
            gate_bias=None if w.gate_bias is None else w.gate_bias[kept],
            down=w.down[:, kept],
            down_bias=F.linear(torch.where(ablated, mean, 0), w.down, w.down_bias),
        )
    return replace(model, layers=layers)


def _replace(first: int, mask: Tensor, means: Sequence[Tensor]) -> LayerHook:
    """Put means by position, (T, m) for each late layer, into the neurons of a mask (late layers, m)."""

    def on_neurons(layer: int, post: Tensor) -> Tensor:
        return torch.where(mask[layer - first], means[layer - first][-post.shape[1] :], post)

    return on_neurons


def run_unmodified(model: Decoder, part: Part, center: bool) -> Readout:
    """The good run: nothing replaced; shape (B,)."""
    return read_out(model, part.last_token.residual[-1], part.answers, center)


def run_all_ablated(model: Decoder, part: Part, means: MeanCache, center: bool) -> Readout:
    """The bad run: all heads and all neurons of all layers at their means, at every position but BOS.

    With every head at its mean, no earlier position affects the last token, so the last token runs alone.
    """
    x = run_layers(
        model,
        embed(model, part.tokens)[:, -1:],
        on_neurons=lambda layer, post: means.neurons[layer][0].expand_as(post),
        on_heads=lambda layer, z: means.heads[layer][0].expand_as(z),
    )
    return read_out(model, x[:, 0], part.answers, center)
