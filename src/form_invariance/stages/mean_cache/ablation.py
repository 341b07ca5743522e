"""Keep-only and knockout by mean ablation (paper, section 4.3; method, section 7)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, LayerHook, Past, embed, run_layers
from form_invariance.model.memory import rows_at_once
from form_invariance.model.readout import Readout, join_prompts, read_out, stack
from form_invariance.model.replay import LastTokenCache, continue_cache, replay, select
from form_invariance.stages.mean_cache.compute import MeanCache, aligned

BATCH = 100
"""Prompts that run at once where a stage has hundreds."""


@dataclass
class EvalRun:
    """The unmodified run of a batch of eval prompts up to the first late layer, shared by all interventions."""

    rows: Tensor  # (B,): which of the eval prompts they are
    tokens: Tensor  # (B, T)
    residual: Tensor  # (B, T, d) before the first late layer
    last_token: LastTokenCache
    answers: Tensor  # (B,)


@torch.no_grad()
def start_runs(
    model: Decoder, tokens: Tensor, answers: Tensor, first: int, size: int = BATCH
) -> Iterator[EvalRun]:
    """Run the layers that no intervention touches, once, in batches of prompts of one length.

    Args:
        tokens: (P, T), shorter prompts padded on the left (`model.batches`).
        answers: token ids, (P,).
    """
    for rows, own in by_length(tokens, size):
        residual = run_layers(model, embed(model, own), stop=first)
        yield EvalRun(rows, own, residual, continue_cache(model, residual, first), answers[rows])


def ablate_all_positions(
    model: Decoder, run: EvalRun, masks: Tensor, means: MeanCache, bos: bool, center: bool
) -> Readout:
    """Replace neurons of the late layers by their means at every token position but BOS.

    Where the prompts share most of their tokens, as worked examples, these run once for each set: no token attends
    to a later one, and the means at a position are the same for all prompts of one length.

    Args:
        masks: True where a neuron is ablated, (sets, late layers, m).
        bos: the prompts open with BOS.

    Returns:
        Readout of shape (sets, B).
    """
    first, tokens = run.last_token.first, run.residual.shape[1]
    laid = [aligned(mean, tokens) for mean in means.neurons[first:]]
    touched = torch.ones(tokens, 1, dtype=torch.bool, device=masks.device)
    touched[0] = not bos
    cut = _shared_prefix(run.tokens)
    readouts = []
    for mask in masks:

        def ablated(end: int, mask: Tensor = mask) -> LayerHook:
            """Ablate tokens that end before position `end`."""

            def on_neurons(layer: int, post: Tensor) -> Tensor:
                here = slice(end - post.shape[1], end)
                return torch.where(mask[layer - first] & touched[here], laid[layer - first][here], post)

            return on_neurons

        past: list[Past | None] = [None] * first
        if cut:
            every = torch.zeros(len(run.tokens), dtype=torch.long, device=run.tokens.device)

            def keep(keys: Tensor, values: Tensor, past: list[Past | None] = past, every: Tensor = every) -> None:
                past.append((keys, values, every))

            prefix = run.residual[:1, :cut]
            run_layers(model, prefix, first, on_neurons=ablated(cut), last_only=True, on_keys_values=keep)
        rest = run.residual[:, cut:]
        x = run_layers(model, rest, first, on_neurons=ablated(tokens), last_only=True, past=past if cut else None)
        readouts.append(read_out(model, x[:, -1], run.answers, center)[None])
    return stack(readouts, dim=0)


def _shared_prefix(tokens: Tensor) -> int:
    """How many first tokens prompts (B, T) share; 0 if this is less than half of them, or there is one prompt."""
    same = (tokens[:, :-1] == tokens[:1, :-1]).all(0).long()
    shared = int(same.cumprod(0).sum())
    return shared if len(tokens) > 1 and 2 * shared > tokens.shape[1] else 0


def ablate_last_position(model: Decoder, run: EvalRun, masks: Tensor, means: MeanCache, center: bool) -> Readout:
    """Replace neurons of the late layers by their means at the last token alone, by replay.

    Args and Returns as in `ablate_all_positions`; the masks may be of each prompt, (B, sets, late layers, m).
    """
    cache, first = run.last_token, run.last_token.first
    per_batch = max(1, rows_at_once(model) // masks.shape[-3])
    pieces = []
    for start in range(0, len(run.answers), per_batch):
        prompts = slice(start, start + per_batch)
        part, own = select(cache, prompts), masks[prompts] if masks.dim() == 4 else masks

        def on_neurons(layer: int, post: Tensor, own: Tensor = own) -> Tensor:
            return torch.where(own[..., layer - first, :], means.neurons[layer][0], post)

        before = part.residual[0][:, None].expand(-1, masks.shape[-3], -1)
        x = replay(model, part, before, first, on_neurons=on_neurons)
        pieces.append(read_out(model, x.transpose(0, 1), run.answers[prompts], center))
    return stack(pieces)


def run_unmodified(model: Decoder, run: EvalRun, center: bool) -> Readout:
    """The good run: nothing replaced; shape (B,)."""
    return read_out(model, run.last_token.residual[-1], run.answers, center)


@torch.no_grad()
def unmodified(model: Decoder, tokens: Tensor, answers: Tensor, first: int, center: bool) -> Readout:
    """The unmodified model's answers to prompts (P, T), in batches; shape (P,)."""
    runs = start_runs(model, tokens, answers, first)
    rows, found = zip(*((run.rows, run_unmodified(model, run, center)) for run in runs), strict=True)
    return join_prompts(rows, found)


def run_all_ablated(model: Decoder, run: EvalRun, means: MeanCache, center: bool) -> Readout:
    """The bad run: all heads and all neurons of all layers at their means, at every position but BOS.

    Where every head is at its mean, nothing of an earlier position reaches the last token, so it runs alone.
    """
    x = run_layers(
        model,
        embed(model, run.tokens)[:, -1:],
        on_neurons=lambda layer, post: means.neurons[layer][0].expand_as(post),
        on_heads=lambda layer, z: means.heads[layer][0].expand_as(z),
    )
    return read_out(model, x[:, 0], run.answers, center)
