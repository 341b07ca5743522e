"""What prompts share of their beginnings is run once: exact, since no token sees those behind it.

Prompts of one template differ from their first operand on, and the pairs of a grid share that operand too. So of
a grid's prompts about half of all tokens are left to run.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, LayerHook, embed, run_layers
from form_invariance.tables.progress import track


@dataclass(frozen=True)
class Plan:
    """In which order prompts run, and where each is cut into a beginning and its own rest."""

    order: np.ndarray  # (P,): prompts with one beginning side by side
    cut: int  # tokens of the beginning
    new: np.ndarray  # (P,) bool, in that order: whether a prompt's beginning is not that of the one before
    tokens: int
    """Tokens to run: those of the beginnings and of the rests."""


def plan(tokens: np.ndarray) -> Plan:
    """The order and the cut with the fewest tokens to run.

    Args:
        tokens: token ids (P, T) of P prompts of one length. The last token is never part of the beginning.
    """
    order = np.lexsort(tokens.T[::-1])
    ordered = tokens[order]
    differs = ordered[1:] != ordered[:-1]
    length = tokens.shape[1]
    # How many of its first tokens a prompt has in common with the one before.
    common = np.where(differs.any(1), differs.argmax(1), length)
    cuts = np.arange(length)
    beginnings = 1 + (common[:, None] < cuts).sum(0)
    left = beginnings * cuts + len(tokens) * (length - cuts)
    cut = int(left.argmin())
    return Plan(order, cut, np.concatenate([[True], common < cut]), int(left[cut]))


def _beginnings(model: Decoder, tokens: Tensor, stop: int) -> list[tuple[Tensor, Tensor]]:
    """Rotated keys and values (B, T, G, D) of the layers below `stop`, of beginnings (B, T)."""
    found: list[tuple[Tensor, Tensor]] = []
    # Above the last layer's keys and values nothing is needed.
    run_layers(
        model,
        embed(model, tokens),
        stop=stop,
        last_only=True,
        on_keys_values=lambda keys, values: found.append((keys, values)),
    )
    return found


@torch.no_grad()
def run_prompts(
    model: Decoder, tokens: np.ndarray, step: int, *, stop: int | None = None, on_neurons: LayerHook | None = None
) -> Iterator[tuple[np.ndarray, Tensor]]:
    """Run prompts of one length up to the last token of layer stop-1, in batches, with progress.

    Args:
        tokens: token ids (P, T), BOS included.
        step: prompts of a batch.
        stop: layers to run; default: all.
        on_neurons: called with (layer, post (b, t, m)) of each prompt's last t tokens; what it returns is used.

    Yields:
        The numbers of a batch's prompts (b,), in no particular order, and the residual stream at their last
        token (b, d).
    """
    stop = model.config.n_layers if stop is None else stop
    chosen = plan(tokens)
    for start in track(range(0, len(tokens), step), len(tokens), "prompts", weight=step):
        own = chosen.order[start : start + step]
        new = chosen.new[start : start + step].copy()
        new[0] = True
        batch = torch.from_numpy(tokens[own]).to(model.device)
        x = embed(model, batch)[:, chosen.cut :]
        past = None
        if chosen.cut:
            first = torch.from_numpy(np.flatnonzero(new)).to(model.device)
            which = torch.from_numpy(np.cumsum(new) - 1).to(model.device)
            cached = _beginnings(model, batch[first, : chosen.cut], stop)
            past = [(keys, values, which) for keys, values in cached]
        x = run_layers(model, x, stop=stop, on_neurons=on_neurons, past=past, last_only=True)
        yield own, x[:, -1]
