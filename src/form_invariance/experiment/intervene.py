"""The experiment of every stage: neurons of the late layers take other values, and the answers are read out.

The neurons take their means over prompts (ablation; paper, section 4.3), or their activations in another prompt
(transfer; section 4.4), at every position or at the last token alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from form_invariance.experiment.ablation import (
    BATCH,
    Part,
    ablate_all_positions,
    run_all_ablated,
    run_unmodified,
    start_runs,
)
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.readout import Readout, join_prompts, read_out, stack
from form_invariance.experiment.run import Run
from form_invariance.model.decoder import Decoder
from form_invariance.model.memory import rows_at_once
from form_invariance.model.replay import LastTokenCache, replay_neurons, select

SETS = 8
"""Sets that run between two reports of progress; what no set changes runs once for all of them."""


def replace_last(model: Decoder, cache: LastTokenCache, masks: Tensor, replacements: Tensor) -> Tensor:
    """Replace neurons of the late layers at the last token, by replay.

    Args:
        masks: True where a neuron is replaced, (sets, late layers, m), or for each prompt
            (B, sets, late layers, m).
        replacements: (late layers, m), or for each prompt (late layers, B, m).

    Returns:
        Residual stream after the last layer, (B, sets, d).
    """
    replacements = replacements[:, None] if replacements.dim() == 2 else replacements

    def on_neurons(layer: int, post: Tensor) -> Tensor:
        late = layer - cache.first
        return torch.where(masks[..., late, :], replacements[late][:, None], post)

    return replay_neurons(model, cache, on_neurons)


def read_replaced(
    model: Decoder, cache: LastTokenCache, answers: Tensor, masks: Tensor, replacements: Tensor, center: bool
) -> Readout:
    """What is read out of the answers (B,) with neurons replaced at the last token (`replace_last`); (sets, B)."""
    pieces = []
    indices = torch.arange(len(answers), device=answers.device)
    for prompts in indices.split(max(1, rows_at_once(model) // masks.shape[-3])):
        x = replace_last(
            model,
            select(cache, prompts),
            masks[prompts] if masks.dim() == 4 else masks,
            replacements[:, prompts] if replacements.dim() == 3 else replacements,
        )
        pieces.append(read_out(model, x.transpose(0, 1), answers[prompts], center))
    return stack(pieces)


@dataclass(frozen=True)
class Started:
    """The unmodified run of prompts: all tokens up to the first late layer, the last token through all layers."""

    run: Run
    parts: list[Part]
    center: bool  # subtract the mean logit over the vocabulary

    def join(self, read: Callable[[Part], Readout]) -> Readout:
        """The readouts (..., b) of the parts, joined in the order of the prompts: (..., P)."""
        return join_prompts([part.rows for part in self.parts], [read(part) for part in self.parts])


@torch.no_grad()
def start(run: Run, tokens: Tensor, answers: Tensor, center: bool, size: int = BATCH) -> Started:
    """Run prompts up to what the interventions change; arguments as in `start_runs`."""
    return Started(run, list(start_runs(run.model, tokens, answers, run.first, size)), center)


@torch.no_grad()
def answer(run: Run, tokens: Tensor, answers: Tensor, center: bool = False) -> Readout:
    """The unmodified model's answers to many prompts, (P,), whose runs are not kept."""
    parts = start_runs(run.model, tokens, answers, run.first)
    rows, readouts = zip(*((part.rows, run_unmodified(run.model, part, center)) for part in parts), strict=True)
    return join_prompts(rows, readouts)


@torch.no_grad()
def unmodified(started: Started) -> Readout:
    """The unmodified model's answers, (P,)."""
    return started.join(lambda part: run_unmodified(started.run.model, part, started.center))


@torch.no_grad()
def all_ablated(started: Started, means: MeanCache) -> Readout:
    """The answers with every head and neuron of all layers at its mean, (P,)."""
    return started.join(lambda part: run_all_ablated(started.run.model, part, means, started.center))


@torch.no_grad()
def intervene(
    started: Started,
    masks: np.ndarray,
    replacements: MeanCache | Tensor,
    everywhere: bool = False,
    at_once: int = SETS,
    done: Callable[[int], None] = lambda sets: None,
) -> Readout:
    """The answers with sets of neurons replaced; equal sets run once.

    Args:
        masks: True where a neuron takes another value, (sets, late layers, m).
        replacements: means by position, or last-token values (late layers, m), or (late layers, P, m).
        everywhere: replace at every position but BOS, by means; else at the last token.
        at_once: sets that run between two calls of `done`.
        done: called with the number of sets that have run.

    Returns:
        Readout of shape (sets, P).
    """
    run, device = started.run, started.run.model.device
    values = replacements.last_token(run.first) if isinstance(replacements, MeanCache) else replacements

    def read(part: Part, set_masks: Tensor) -> Readout:
        if everywhere and isinstance(replacements, MeanCache):
            bos = run.tokenizer.bos is not None
            return ablate_all_positions(run.model, part, set_masks, replacements, bos, started.center)
        here = values[:, part.rows] if values.dim() == 3 else values
        return read_replaced(run.model, part.last_token, part.answers, set_masks, here, started.center)

    _, first, which = np.unique(
        np.packbits(masks.reshape(len(masks), -1), axis=1), axis=0, return_index=True, return_inverse=True
    )
    pieces = []
    for set_masks in torch.from_numpy(masks[first]).to(device).split(at_once):
        pieces.append(started.join(partial(read, set_masks=set_masks)))
        done(len(set_masks))
    done(len(masks) - len(first))
    return stack(pieces, dim=0)[torch.from_numpy(which.reshape(-1)).to(device)]
