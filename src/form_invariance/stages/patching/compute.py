"""Exact activation patching of single neurons at the last token (stage 2; paper, section 4.2, Eq. 4)."""

from collections.abc import Callable

import torch
from torch import Tensor

from form_invariance.experiment.indirect_effect import effects_beside_clean
from form_invariance.experiment.run import Run
from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder
from form_invariance.model.memory import rows_at_once
from form_invariance.model.near_readout import NearReadout, Readouts, near_readout
from form_invariance.model.replay import (
    LastTokenCache,
    build_cache,
    change_neurons,
    log_probabilities,
    replay,
    select,
)
from form_invariance.stages.attribution.compute import corrupt_activations
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.tables.progress import Progress


@torch.no_grad()
def patch_neurons(
    model: Decoder,
    cache: LastTokenCache,
    layer: int,
    candidates: Tensor,
    corrupt: Tensor,
    answers: Tensor,
    near: NearReadout | None = None,
    metric: str = "indirect_effect",
) -> Tensor:
    """Effect of every candidate neuron of one layer, each patched alone.

    Every batch has one row that patches nothing (`effects_beside_clean`).

    Args:
        cache: the clean prompts' cache.
        layer: a late layer.
        candidates: neurons of that layer, (C,).
        corrupt: the candidates' activations at the corrupt prompts' last token, (B, C).
        answers: token ids of the clean and of the corrupt answer, (B, 2).
        near: near readout of the same prompts; None reads out every patch in full.
        metric: a metric of `indirect_effect.RANKING_METRICS`.

    Returns:
        Effects, and changes of the clean answer's probability, (2, B, C), float32.

    Raises:
        RuntimeError: replay disagrees with the ordinary pass, or an effect is not finite in float32.
    """
    late = layer - cache.first
    change = corrupt - cache.neurons[late][:, candidates]  # (B, C)
    before = cache.residual[late + 1][:, None]  # (B, 1, d)
    ordinary = log_probabilities(model, cache.residual[-1][:, None], answers)  # (B, 1, 2)
    pieces = max(1, round(len(candidates) / rows_at_once(model)))
    effects = []
    for neurons, moved in zip(candidates.chunk(pieces), change.chunk(pieces, dim=1), strict=True):
        directions = model.layers[layer].down.T[neurons]  # (n, d)
        patched = change_neurons(
            model, layer, cache.residual[late + 1], cache.neurons[late], moved[..., None] * directions
        )
        x = replay(model, cache, torch.cat([before, patched], dim=1), layer + 1)
        effect = effects_beside_clean(model, layer, x, ordinary, answers, near, metric).float()
        if not effect.isfinite().all():
            raise RuntimeError(f"layer {layer}: an effect exceeds float32's range")
        effects.append(effect)
    return torch.cat(effects, dim=-1)


def patch_layers(
    model: Decoder,
    tokens: Tensor,
    first: int,
    candidates: dict[int, Tensor],
    corrupt: Tensor,
    answers: Tensor,
    done: Callable[[int], None],
    readouts: Readouts,
    metric: str = "indirect_effect",
) -> dict[int, Tensor]:
    """Effects of the candidates of every late layer, for several draws of corrupt partners.

    Args:
        tokens: clean prompts, (P, T), shorter ones padded on the left (`model.batches`).
        first: first late layer.
        candidates: neurons of each late layer, (C,) each.
        corrupt: last-token activations of the corrupt prompts, (S, late layers, P, m).
        answers: token ids of the clean and of each draw's corrupt answer, (S, P, 2).
        done: called after each piece with its number of single patches.
        readouts: how the patches are read out; counts them.
        metric: a metric of `indirect_effect.RANKING_METRICS`.

    Returns:
        For each late layer (2, S, P, C), float32: effects, and changes of the clean answer's probability.
    """
    widest = max(len(neurons) for neurons in candidates.values())
    batch = max(1, rows_at_once(model) // widest)
    caches = [(rows, build_cache(model, chunk, first)) for rows, chunk in by_length(tokens, len(tokens))]
    groups = [(rows, cache, near_readout(model, cache.residual[-1], readouts)) for rows, cache in caches]
    effects = {}
    for layer, neurons in candidates.items():
        of_layer = torch.empty(2, *answers.shape[:2], len(neurons), device=tokens.device)
        for draw in range(len(corrupt)):
            for rows, cache, near in groups:
                for start in range(0, len(rows), batch):
                    piece = slice(start, start + batch)
                    prompts = rows[piece]
                    activations = corrupt[draw, layer - first, prompts][:, neurons]
                    of_layer[:, draw, prompts] = patch_neurons(
                        model,
                        select(cache, piece),
                        layer,
                        neurons,
                        activations,
                        answers[draw, prompts],
                        None if near is None else near[piece],
                        metric,
                    )
                    done(len(prompts) * len(neurons))
        effects[layer] = of_layer
    return effects


def patch_candidates(
    run: Run, train: TrainPrompts, candidates: dict[int, Tensor], metric: str = "indirect_effect"
) -> dict[int, Tensor]:
    """`patch_layers` for a cell's train prompts, with progress."""
    corrupt = torch.stack([corrupt_activations(run, partners) for partners in train.partners])
    patches = sum(map(len, candidates.values())) * len(train.tokens) * len(corrupt)
    done = Progress(patches, "patches").add
    return patch_layers(
        run.model, train.tokens, run.first, candidates, corrupt, train.answers, done, run.readouts, metric
    )
