"""Exact activation patching of single attention heads at the last token, and what the heads attend to there.

The paper patches MLP neurons and leaves to future work whether the heads that route the operands to the last
token are the same in every format (its Limitations). A head's output at the last token alters no key or value
of an earlier position, so replay from layer 0 is exact for heads as it is for neurons.

Heads are few, so they are ranked over the layers together, not layer by layer as neurons are: the h best of all
layers, and of the layers below the first late one, where operands are moved before late neurons compute. Their
overlap has the chance level of random sets and, as its ceiling, the overlap of halves of one format's prompts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import Decoder, embed, run_layers
from form_invariance.model.indirect_effect import effects_beside_clean
from form_invariance.model.memory import rows_at_once
from form_invariance.model.near_readout import near_readout
from form_invariance.model.readouts import Readouts
from form_invariance.model.replay import (
    LastTokenCache,
    build_cache,
    last_token_attention,
    log_probabilities,
    replay,
)
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.statistics import ranks

ATTENDED = ("a", "b", "bos")
"""What the table tells the attention to: the operands' tokens, and BOS."""


@dataclass
class CellHeads:
    """What is measured of every head of every layer in one cell."""

    effects: Tensor  # (P, L, H), float64
    attention: dict[str, Tensor]  # by what is attended to: mean over the prompts (L, H)


@torch.no_grad()
def last_token_heads(model: Decoder, tokens: Tensor, batch: int = 256) -> Tensor:
    """The heads' outputs (`hook_z`) at the last token, (L, P, H, D), of prompts (P, T)."""
    pieces: list[list[Tensor]] = []
    every = []

    def keep(_: int, z: Tensor) -> Tensor:
        pieces[-1].append(z[:, -1].clone())
        return z

    for rows, piece in by_length(tokens, batch):
        every.append(rows)
        pieces.append([])
        run_layers(model, embed(model, piece), on_heads=keep, last_only=True)
    return in_order(every, [torch.stack(of_layer) for of_layer in pieces], dim=1)


@torch.no_grad()
def patch_heads(
    model: Decoder, cache: LastTokenCache, corrupt: Tensor, answers: Tensor, readouts: Readouts
) -> Tensor:
    """Indirect effect of every head of every layer, each patched alone.

    Args:
        cache: of the clean prompts, from layer 0 on.
        corrupt: the heads' outputs at the corrupt prompts' last token, (L, B, H, D).
        answers: token ids of the clean and of the corrupt answer, (B, 2).
        readouts: says how the patches are read out, and counts them.

    Returns:
        (B, L, H), float64.

    Raises:
        RuntimeError: replay disagrees with the ordinary pass, or an effect is not a finite number.
    """
    heads = torch.arange(model.config.n_heads, device=model.device)
    ordinary = log_probabilities(model, cache.residual[-1][:, None], answers)
    near = near_readout(model, cache.residual[-1], readouts)
    effects = []
    for layer in range(model.config.n_layers):

        def patch(at: int, z: Tensor, layer: int = layer) -> Tensor:
            if at != layer:
                return z
            # Row 0 stays as it is, row 1 + h takes the corrupt output of head h.
            z = z.clone()
            z[:, 1 + heads, heads] = corrupt[layer]
            return z

        before = cache.residual[layer][:, None].expand(-1, 1 + len(heads), -1)
        x = replay(model, cache, before, layer, on_heads=patch)
        effects.append(effects_beside_clean(model, layer, x, ordinary, answers, near))
    return torch.stack(effects, dim=1)


def attended_positions(train: TrainPrompts, bos: int | None) -> dict[str, int | None]:
    """The position of the first operand, of the second and of BOS in all prompts; None where there is none.

    Raises:
        UserError: an operand is not at the same position in all prompts.
    """
    positions: dict[str, int | None] = {}
    for column, name in enumerate(("a", "b")):
        if train.operands is None:
            positions[name] = None
            continue
        same = (train.tokens == train.operands[:, column : column + 1]).all(0).nonzero()
        if not len(same):
            raise UserError(
                f"heads: operand {name} is not at the same position in all train prompts; make the dataset again"
            )
        positions[name] = int(same[0])
    return {**positions, "bos": None if bos is None else 0}


def measure_cell(
    model: Decoder,
    tokenizer: PromptTokenizer,
    train: TrainPrompts,
    done: Callable[[int], None],
    readouts: Readouts,
) -> CellHeads:
    """Patch every head with the first draw of corrupt partners, and see what it attends to in the clean run.

    Args:
        done: told after each piece how many single patches it held.
        readouts: says how the patches are read out, and counts them.
    """
    places = attended_positions(train, tokenizer.bos)
    partners = torch.from_numpy(tokenizer.encode_batch(train.partners[0])).to(model.device)
    corrupt = last_token_heads(model, partners)
    batch = max(1, rows_at_once(model) // (1 + model.config.n_heads))
    every, effects, weights = [], [], []
    for rows, batch_tokens in by_length(train.tokens, batch):
        cache = build_cache(model, batch_tokens, 0)
        every.append(rows)
        effects.append(patch_heads(model, cache, corrupt[:, rows], train.answers[0, rows], readouts))
        layers = [last_token_attention(model, layer, cache).float() for layer in range(model.config.n_layers)]
        # BOS is the first token, and operands are at one position, so that padding on the right moves neither.
        missing = train.tokens.shape[1] - batch_tokens.shape[1]
        weights.append(torch.nn.functional.pad(torch.stack(layers, dim=1), (0, missing)))
        done(effects[-1].numel())
    mean = torch.cat(weights).mean(0)  # (L, H, T)
    nowhere = torch.full(mean.shape[:2], float("nan"), device=mean.device)
    attention = {name: nowhere if place is None else mean[..., place] for name, place in places.items()}
    return CellHeads(in_order(every, effects, dim=0), attention)


def heads_table(cell: CellHeads) -> pd.DataFrame:
    """The table of a cell's heads, ranked by mean effect over all layers."""
    effects = cell.effects.cpu().numpy().reshape(len(cell.effects), -1)  # (P, L*H)
    mean = effects.mean(0)
    layer, head = np.indices(cell.effects.shape[1:]).reshape(2, -1)
    table = pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "rank": ranks(mean, np.arange(len(mean))) + 1,
            "ie_mean": mean,
            "ie_std": effects.std(0, ddof=1) if len(effects) > 1 else np.zeros_like(mean),
            "ie_median": np.median(effects, axis=0),
            **{f"attention_{name}": cell.attention[name].double().cpu().numpy().ravel() for name in ATTENDED},
        }
    )
    return table.sort_values("rank", ignore_index=True)
