"""Exact activation patching of single neurons at the last token (stage 2; paper, section 4.3, Eq. 3)."""

from collections.abc import Callable

import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, change_neurons
from form_invariance.model.memory import replayed_rows
from form_invariance.model.replay import LastTokenCache, build_cache, log_probabilities, replay, select

_NO_OP_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.25}
_NO_OP_TOLERANCE_TF32 = 0.05


def indirect_effect(change_corrupt: Tensor, change_clean: Tensor) -> Tensor:
    """The indirect effect (paper, Eq. 3) in its numerically stable form.

    Args:
        change_corrupt: patched minus clean log-probability of the corrupt answer r'.
        change_clean: patched minus clean log-probability of the clean answer r.

    Returns:
        ½[expm1(change_corrupt) + expm1(-change_clean)], the same shape.
    """
    return 0.5 * (torch.expm1(change_corrupt) + torch.expm1(-change_clean))


@torch.no_grad()
def last_token_neurons(model: Decoder, tokens: Tensor, first: int, batch: int = 256) -> Tensor:
    """The last token's activations in the late layers, (late layers, prompts, m), of prompts (prompts, T)."""
    return torch.cat([build_cache(model, piece, first).neurons for piece in tokens.split(batch)], dim=1)


def effects_beside_clean(model: Decoder, layer: int, x: Tensor, ordinary: Tensor, answers: Tensor) -> Tensor:
    """Indirect effects of variants of the last token that were run in one batch, the first of them unchanged.

    The unchanged one's log-probabilities are the clean ones that the others are compared with (low precision
    moves with the batch's shape), and they are checked against the ordinary pass.

    Args:
        layer: the patched layer, for messages.
        x: residual stream after the last layer, (B, 1 + N, d).
        ordinary: the answers' log-probabilities in the ordinary pass, (B, 1, 2).
        answers: token ids of the clean and of the corrupt answer, (B, 2).

    Returns:
        Indirect effects, (B, N), float64: a strong one may exceed float32's range.

    Raises:
        RuntimeError: replay disagrees with the ordinary pass, or an effect is not a finite number.
    """
    logs = log_probabilities(model, x, answers)
    clean = logs[:, :1]
    error = (clean - ordinary).abs().max().item()
    if not error <= _no_op_tolerance(model):
        raise RuntimeError(f"layer {layer}: replay differs from the ordinary pass by {error:.1e} in log P")
    moved = (logs[:, 1:] - clean).double()
    effects = indirect_effect(moved[..., 1], moved[..., 0])
    if not effects.isfinite().all():
        raise RuntimeError(f"layer {layer}: an indirect effect is not a finite number; use --dtype float32")
    return effects


@torch.no_grad()
def patch_neurons(
    model: Decoder,
    cache: LastTokenCache,
    layer: int,
    candidates: Tensor,
    corrupt: Tensor,
    answers: Tensor,
) -> Tensor:
    """Indirect effect of every candidate neuron of one layer, each patched alone.

    Every batch carries one variant that patches nothing (`effects_beside_clean`).

    Args:
        cache: of the clean prompts.
        layer: a late layer.
        candidates: neurons of that layer, (C,).
        corrupt: the candidates' activations at the corrupt prompts' last token, (B, C).
        answers: token ids of the clean and of the corrupt answer, (B, 2).

    Returns:
        Indirect effects, (B, C), float32.

    Raises:
        RuntimeError: replay disagrees with the ordinary pass, or an effect is no finite number of float32.
    """
    late = layer - cache.first
    change = corrupt - cache.neurons[late][:, candidates]  # (B, C)
    directions = model.layers[layer].down.T[candidates]  # (C, d)
    before = cache.residual[late + 1][:, None]  # (B, 1, d)
    ordinary = log_probabilities(model, cache.residual[-1][:, None], answers)  # (B, 1, 2)
    step = min(max(1, replayed_rows(model) // 2), len(candidates))
    effects = []
    for start in range(0, len(candidates), step):
        piece = slice(start, start + step)
        patched = change_neurons(
            model, layer, cache.residual[late + 1], cache.neurons[late], change[:, piece, None] * directions[piece]
        )
        x = replay(model, cache, torch.cat([before, patched], dim=1), layer + 1)
        found = effects_beside_clean(model, layer, x, ordinary, answers).float()
        if not found.isfinite().all():
            raise RuntimeError(f"layer {layer}: an indirect effect exceeds float32's range")
        effects.append(found)
    return torch.cat(effects, dim=1)


def _no_op_tolerance(model: Decoder) -> float:
    """How far replay may be from the ordinary pass in log P: other shapes of product round otherwise."""
    if model.dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        return _NO_OP_TOLERANCE_TF32
    return _NO_OP_TOLERANCE[model.dtype]


def patch_layers(
    model: Decoder,
    tokens: Tensor,
    first: int,
    candidates: dict[int, Tensor],
    corrupt: Tensor,
    answers: Tensor,
    done: Callable[[int], None],
) -> dict[int, Tensor]:
    """Indirect effects of the candidates of every late layer, for several draws of corrupt partners.

    Args:
        tokens: clean prompts, (P, T).
        first: first late layer.
        candidates: neurons of each late layer, (C,) each.
        corrupt: last-token activations of the corrupt prompts, (S, late layers, P, m).
        answers: token ids of the clean and of each draw's corrupt answer, (S, P, 2).
        done: told after each piece how many single patches it held.

    Returns:
        For each late layer (S, P, C), float32.
    """
    widest = max(len(neurons) for neurons in candidates.values())
    batch = max(1, replayed_rows(model) // widest)
    cache = build_cache(model, tokens, first)
    effects = {}
    for layer, wanted in candidates.items():
        draws = []
        for draw in range(len(corrupt)):
            pieces = []
            for start in range(0, len(tokens), batch):
                prompts = slice(start, start + batch)
                activations = corrupt[draw, layer - first, prompts][:, wanted]
                piece = patch_neurons(
                    model, select(cache, prompts), layer, wanted, activations, answers[draw, prompts]
                )
                done(piece.numel())
                pieces.append(piece)
            draws.append(torch.cat(pieces))
        effects[layer] = torch.stack(draws)
    return effects
