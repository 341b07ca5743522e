"""Attribution patching of all late neurons at the last token (stage 1; paper, section 4.3, Eq. 4)."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.finite import check_finite
from form_invariance.model.replay import LastTokenCache, build_cache, replay


def effect_gradient(model: Decoder, cache: LastTokenCache, answers: Tensor) -> Tensor:
    """Gradient of the indirect effect with respect to the last token's neurons, at the clean run.

    There, ∂IE = ½ ∂(logit[r'] - logit[r]) exactly: the normalisers of the two log-probabilities cancel.
    Only the last token's path through the late layers is differentiated, and no weight's gradient is kept.

    Args:
        cache: of the clean prompts.
        answers: token ids of the clean and of the corrupt answer, (B, 2).

    Returns:
        (late layers, B, m).
    """
    activations: list[Tensor] = []

    def keep(layer: int, post: Tensor) -> Tensor:
        activations.append(post.requires_grad_())
        return post

    with torch.enable_grad():
        x = replay(model, cache, cache.residual[0][:, None].clone(), cache.first, on_neurons=keep)
        picked = logits(model, x[:, 0]).gather(1, answers)
        objective = 0.5 * (picked[:, 1] - picked[:, 0]).sum()
        gradients = torch.autograd.grad(objective, activations)
    return torch.stack([gradient[:, 0] for gradient in gradients])


def attribute(
    model: Decoder, tokens: Tensor, corrupt: Tensor, answers: Tensor, first: int, batch: int = 128
) -> Tensor:
    """First-order indirect effect of every late neuron on every prompt (paper, Eq. 4).

    Args:
        tokens: clean prompts, (P, T).
        corrupt: the corrupt prompts' last-token activations, (late layers, P, m).
        answers: token ids of the clean and of the corrupt answer, (P, 2).
        first: first late layer.

    Returns:
        (a_corrupt - a_clean) · ∂IE/∂a, (late layers, P, m), float32.
    """
    pieces = []
    for start in range(0, len(tokens), batch):
        prompts = slice(start, start + batch)
        cache = build_cache(model, tokens[prompts], first)
        gradient = effect_gradient(model, cache, answers[prompts])
        change = (corrupt[:, prompts] - cache.neurons).float()
        pieces.append(check_finite(change * gradient.float(), "the attributions"))
    return torch.cat(pieces, dim=1)


def attribution_table(effects: np.ndarray, first: int, candidates: int) -> pd.DataFrame:
    """Rank every late neuron of each layer by mean + standard deviation over the prompts.

    Args:
        effects: from `attribute`, (late layers, P, m).
        first: first late layer.
        candidates: how many neurons of a layer go on to exact patching; all where it has fewer.

    Returns:
        The attribution table; ties are broken by the neuron's index. The standard deviation is the
        sample one, 0 for a single prompt.
    """
    tables = []
    for late, values in enumerate(effects.astype(np.float64)):
        mean = values.mean(0)
        std = values.std(0, ddof=1) if len(values) > 1 else 0.0
        score = mean + std
        rank = np.empty(len(score), dtype=np.int64)
        rank[np.argsort(-score, kind="stable")] = np.arange(1, len(score) + 1)
        tables.append(
            pd.DataFrame(
                {
                    "layer": first + late,
                    "neuron": np.arange(len(score)),
                    "mean": mean,
                    "std": std,
                    "score": score,
                    "rank": rank,
                    "candidate": rank <= candidates,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)
