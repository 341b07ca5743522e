"""Run a prefix that several prompts share once for all. This is exact: no token attends to later tokens.

Prompts of one template are equal up to their first operand, and many pairs of a grid share that operand too. So
about half of all tokens of a grid's prompts need to run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, LayerHook, Past, embed, run_layers
from form_invariance.model.memory import rows_at_once
from form_invariance.tables.progress import Progress

_MOST = 512
"""Prompts of a batch: their logits take memory too."""


def shared_beginning(tokens: Tensor) -> int:
    """How many first tokens prompts (B, T) share; 0 if at most half of the tokens, or if there is one prompt."""
    same = (tokens[:, :-1] == tokens[:1, :-1]).all(0).long()
    shared = int(same.cumprod(0).sum())
    return shared if len(tokens) > 1 and 2 * shared > tokens.shape[1] else 0


def run_beginning(
    model: Decoder,
    tokens: Tensor,
    *,
    on_neurons: LayerHook | None = None,
    on_heads: LayerHook | None = None,
) -> tuple[list[Tensor], list[Past]]:
    """Run a beginning that prompts share, such as worked examples, through all layers.

    Args:
        tokens: its token ids, (1, t), t > 0.
        on_neurons, on_heads: as in `run_layers`.

    Returns:
        The residual stream after each layer, (1, t, d), and every layer's keys and values (`for_each`).
    """
    past: list[Past] = []

    def keep(keys: Tensor, values: Tensor) -> None:
        past.append((keys, values, torch.zeros(1, dtype=torch.long, device=model.device)))

    x, after = embed(model, tokens), []
    for layer in range(model.config.n_layers):
        x = run_layers(model, x, layer, layer + 1, on_neurons=on_neurons, on_heads=on_heads, on_keys_values=keep)
        after.append(x)
    return after, past


def for_each(past: Sequence[Past], prompts: int) -> list[Past]:
    """The keys and values of one beginning, as the past of `prompts` prompts."""
    return [(keys, values, which.expand(prompts)) for keys, values, which in past]


@dataclass(frozen=True)
class Plan:
    """The order in which prompts run, and the length of their prefixes."""

    order: np.ndarray  # (P,): prompts with equal prefixes are adjacent
    cut: int  # tokens of a prefix
    new: np.ndarray  # (P,) bool, in that order: whether a prompt's prefix differs from the previous prompt's
    tokens: int  # tokens to run: those of the prefixes and of the rests


def plan(tokens: np.ndarray, last: int = 1) -> Plan:
    """The plan with the fewest tokens to run.

    Args:
        tokens: token ids (P, T) of P prompts of one length.
        last: the number of last tokens that are never part of a prefix.
    """
    order = np.lexsort(tokens.T[::-1])
    ordered = tokens[order]
    differs = ordered[1:] != ordered[:-1]
    length = tokens.shape[1]
    # The number of first tokens that each prompt shares with the previous one.
    common = np.where(differs.any(1), differs.argmax(1), length)
    cuts = np.arange(length - last + 1)
    prefixes = 1 + (common[:, None] < cuts).sum(0)
    left = prefixes * cuts + len(tokens) * (length - cuts)
    cut = int(left.argmin())
    return Plan(order, cut, np.concatenate([[True], common < cut]), int(left[cut]))


@torch.no_grad()
def run_prompts(
    model: Decoder,
    tokens: np.ndarray,
    *,
    stop: int | None = None,
    on_neurons: LayerHook | None = None,
    last: int = 1,
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Run prompts up to the last tokens of layer stop-1, in batches of one length, with progress.

    Args:
        tokens: token ids (P, T), BOS included; shorter prompts are padded on the left (`model.batches`).
        stop: number of layers to run; default: all.
        on_neurons: called with (layer, post (b, t, m)) for each prompt's last t tokens; its result replaces post.
        last: the number of last tokens whose residual stream is wanted.

    Yields:
        The indices of a batch's prompts (b,), in no particular order, and the residual stream at their last tokens
        (b, last, d).
    """
    progress = Progress(len(tokens), "prompts")
    for rows, group in by_length(torch.from_numpy(tokens), len(tokens)):
        for rows_of_batch, x in _run_group(model, group.numpy(), stop, on_neurons, last):
            yield rows.numpy()[rows_of_batch], x
            progress.add(len(x))


def _run_group(
    model: Decoder, tokens: np.ndarray, stop: int | None, on_neurons: LayerHook | None, last: int
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """`run_prompts` of prompts (P, T) of one length, without padding."""
    stop = model.config.n_layers if stop is None else stop
    prefix_plan = plan(tokens, last)
    step = max(1, min(_MOST, rows_at_once(model) // (tokens.shape[1] - prefix_plan.cut)))
    for start in range(0, len(tokens), step):
        rows = prefix_plan.order[start : start + step]
        new = prefix_plan.new[start : start + step].copy()
        new[0] = True
        batch = torch.from_numpy(tokens[rows]).to(model.device)
        x = embed(model, batch)[:, prefix_plan.cut :]
        past: list[Past] = []
        if prefix_plan.cut:
            first = torch.from_numpy(np.flatnonzero(new)).to(model.device)
            which = torch.from_numpy(np.cumsum(new) - 1).to(model.device)

            def keep(keys: Tensor, values: Tensor, past: list[Past] = past, which: Tensor = which) -> None:
                past.append((keys, values, which))

            prefixes = embed(model, batch[first, : prefix_plan.cut])
            # Only keys and values of the last layer are needed, so one token alone runs through the rest of it.
            run_layers(model, prefixes, stop=stop, last_only=True, on_keys_values=keep)
        x = run_layers(model, x, stop=stop, on_neurons=on_neurons, past=past, last_only=last == 1)
        yield rows, x[:, -last:]
