"""Run a prefix that several prompts share only once. This is exact: no token attends to later tokens.

Prompts of one template are equal up to their first operand, and many pairs of a grid share that operand too. So
about half of all tokens of a grid's prompts need to run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, LayerHook, Past, embed, run_layers
from form_invariance.model.memory import rows_at_once
from form_invariance.tables.progress import track

_MOST = 512
"""Prompts of a batch: their logits take memory too."""


@dataclass(frozen=True)
class Plan:
    """The order in which prompts run, and the length of their prefixes."""

    order: np.ndarray  # (P,): prompts with equal prefixes are adjacent
    cut: int  # tokens of a prefix
    new: np.ndarray  # (P,) bool, in that order: whether a prompt's prefix differs from the previous prompt's
    tokens: int  # tokens to run: those of the prefixes and of the rests


def plan(tokens: np.ndarray) -> Plan:
    """The plan with the fewest tokens to run.

    Args:
        tokens: token ids (P, T) of P prompts of one length. The last token is never part of a prefix.
    """
    order = np.lexsort(tokens.T[::-1])
    ordered = tokens[order]
    differs = ordered[1:] != ordered[:-1]
    length = tokens.shape[1]
    # The number of first tokens that each prompt shares with the previous one.
    common = np.where(differs.any(1), differs.argmax(1), length)
    cuts = np.arange(length)
    prefixes = 1 + (common[:, None] < cuts).sum(0)
    left = prefixes * cuts + len(tokens) * (length - cuts)
    cut = int(left.argmin())
    return Plan(order, cut, np.concatenate([[True], common < cut]), int(left[cut]))


@torch.no_grad()
def run_prompts(
    model: Decoder, tokens: np.ndarray, *, stop: int | None = None, on_neurons: LayerHook | None = None
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Run prompts of one length up to the last token of layer stop-1, in batches, with progress.

    Args:
        tokens: token ids (P, T), BOS included.
        stop: number of layers to run; default: all.
        on_neurons: called with (layer, post (b, t, m)) for each prompt's last t tokens; its result replaces post.

    Yields:
        The indices of a batch's prompts (b,), in no particular order, and the residual stream at their last token
        (b, d).
    """
    stop = model.config.n_layers if stop is None else stop
    chosen = plan(tokens)
    step = max(1, min(_MOST, rows_at_once(model) // (tokens.shape[1] - chosen.cut)))
    for start in track(range(0, len(tokens), step), len(tokens), "prompts", weight=step):
        own = chosen.order[start : start + step]
        new = chosen.new[start : start + step].copy()
        new[0] = True
        batch = torch.from_numpy(tokens[own]).to(model.device)
        x = embed(model, batch)[:, chosen.cut :]
        past: list[Past] = []
        if chosen.cut:
            first = torch.from_numpy(np.flatnonzero(new)).to(model.device)
            which = torch.from_numpy(np.cumsum(new) - 1).to(model.device)

            def keep(keys: Tensor, values: Tensor, past: list[Past] = past, which: Tensor = which) -> None:
                past.append((keys, values, which))

            prefixes = embed(model, batch[first, : chosen.cut])
            # Of the last layer only the keys and values are needed, so only one token runs through the rest of it.
            run_layers(model, prefixes, stop=stop, last_only=True, on_keys_values=keep)
        x = run_layers(model, x, stop=stop, on_neurons=on_neurons, past=past, last_only=True)
        yield own, x[:, -1]
