"""Attribution patching of all late neurons at the last token (stage 1; paper, section 4.2, Eq. 5)."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.readout import check_finite
from form_invariance.experiment.run import Run
from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.replay import LastTokenCache, build_cache, last_token_neurons, replay
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.statistics import ranks

_OBJECTIVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    # At the clean run ∂IE = ½ ∂(logit[r'] - logit[r]) exactly: the normalisers of the log-probabilities cancel.
    "indirect_effect": lambda z, answers: 0.5 * z.gather(1, answers).diff(),
    "probability": lambda z, answers: -z.softmax(-1).gather(1, answers[:, :1]),
}
"""A function (B, 1) of logits (B, V) and answers (B, 2) that has the gradient of the effect at the clean run."""


def effect_gradient(
    model: Decoder, cache: LastTokenCache, answers: Tensor, metric: str = "indirect_effect"
) -> Tensor:
    """Gradient of the effect with respect to the last token's neurons at the clean run, (late layers, B, m).

    Only the last token's path through the late layers is differentiated, and no weight's gradient is kept.

    Args:
        cache: the clean prompts' cache.
        answers: token ids of the clean and of the corrupt answer, (B, 2).
        metric: a metric of `indirect_effect.RANKINGS`.
    """
    activations: list[Tensor] = []

    def keep(layer: int, post: Tensor) -> Tensor:
        activations.append(post.requires_grad_())
        return post

    with torch.enable_grad():
        x = replay(model, cache, cache.residual[0][:, None].clone(), cache.first, on_neurons=keep)
        objective = _OBJECTIVES[metric](logits(model, x[:, 0]), answers)
        gradients = torch.autograd.grad(objective.sum(), activations)
    return torch.stack([gradient[:, 0] for gradient in gradients])


def attribute(
    model: Decoder,
    tokens: Tensor,
    corrupt: Tensor,
    answers: Tensor,
    first: int,
    batch: int = 128,
    metric: str = "indirect_effect",
) -> Tensor:
    """First-order effect of every late neuron on every prompt (paper, Eq. 5).

    Args:
        tokens: clean prompts, (P, T), shorter ones padded on the left (`model.batches`).
        corrupt: the corrupt prompts' last-token activations, (late layers, P, m).
        answers: token ids of the clean and of the corrupt answer, (P, 2).
        first: first late layer.
        metric: a metric of `indirect_effect.RANKINGS`.

    Returns:
        (a_corrupt - a_clean) · ∂effect/∂a, (late layers, P, m), float32.
    """
    batch_rows, attributions = [], []
    for rows, batch_tokens in by_length(tokens, batch):
        cache = build_cache(model, batch_tokens, first)
        gradient = effect_gradient(model, cache, answers[rows], metric)
        change = (corrupt[:, rows] - cache.neurons).float()
        batch_rows.append(rows)
        attributions.append(check_finite(change * gradient.float(), "the attributions"))
    return in_order(batch_rows, attributions, dim=1)


def attribution_table(effects: np.ndarray, first: int, candidates: int) -> pd.DataFrame:
    """Rank every late neuron of each layer by mean + standard deviation over the prompts.

    Args:
        effects: from `attribute`, (late layers, P, m).
        first: first late layer.
        candidates: number of neurons of a layer that go on to exact patching; all if it has fewer.

    Returns:
        The attribution table; ties are broken by the neuron's index. The standard deviation is the sample standard
        deviation, 0 for a single prompt.
    """
    tables = []
    for late, values in enumerate(effects.astype(np.float64)):
        mean = values.mean(0)
        std = values.std(0, ddof=1) if len(values) > 1 else 0.0
        score = mean + std
        neurons = np.arange(len(score))
        rank = ranks(score, neurons) + 1
        tables.append(
            pd.DataFrame(
                {
                    "layer": first + late,
                    "neuron": neurons,
                    "mean": mean,
                    "std": std,
                    "score": score,
                    "rank": rank,
                    "candidate": rank <= candidates,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def corrupt_activations(run: Run, partners: list[str]) -> Tensor:
    """Last-token activations of the corrupt partners, (late layers, P, m)."""
    return last_token_neurons(run.model, run.tokens(partners), run.first)


def first_stage(run: Run, train: TrainPrompts, candidates: int, metric: str = "indirect_effect") -> pd.DataFrame:
    """The attribution table of a cell, by the first draw of corrupt partners.

    Args:
        candidates: number of neurons of a layer that go on to exact patching.
        metric: a metric of `indirect_effect.RANKINGS`.
    """
    corrupt = corrupt_activations(run, train.partners[0])
    effects = attribute(run.model, train.tokens, corrupt, train.answers[0], run.first, metric=metric)
    return attribution_table(effects.cpu().numpy(), run.first, candidates)
