"""The indirect effect of a patch (paper, section 4.2, Eq. 4), and the check that a no-op patch has none."""

from collections.abc import Callable

import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.memory import logits_at_once
from form_invariance.model.near_readout import NearReadout, log_probabilities_near
from form_invariance.model.precision import matmul_precision
from form_invariance.model.replay import log_probabilities

# Replay rounds differently from the ordinary pass, because its matrix products have other shapes.
_NO_OP_TOLERANCE = {"float32": 1e-3, "tf32": 0.05, "bfloat16": 0.25}


def indirect_effect(change_corrupt: Tensor, change_clean: Tensor) -> Tensor:
    """The indirect effect (paper, Eq. 4) in its numerically stable form.

    Args:
        change_corrupt: patched minus clean log-probability of the corrupt answer r'.
        change_clean: patched minus clean log-probability of the clean answer r.

    Returns:
        ½[expm1(change_corrupt) + expm1(-change_clean)], the same shape.
    """
    return 0.5 * (torch.expm1(change_corrupt) + torch.expm1(-change_clean))


def divergence(model: Decoder, x: Tensor) -> Tensor:
    """KL divergence of the patched distributions over the vocabulary from the clean one, (B, N), float64.

    Args:
        x: residual stream after the last layer, (B, 1 + N, d); the first run of each prompt is the clean one.
    """
    step = logits_at_once(model)
    sums = []
    for runs in x:
        clean, *patched = (
            logits(model, batch).double().log_softmax(-1) for batch in (runs[:1], *runs[1:].split(step))
        )
        sums.append(torch.cat([(clean.exp() * (clean - log_p)).sum(-1) for log_p in patched]))
    return torch.stack(sums)


RANKING_METRICS: dict[str, Callable[[Decoder, Tensor, Tensor, Tensor], Tensor]] = {
    "indirect_effect": lambda model, x, moved, change: indirect_effect(moved[..., 1], moved[..., 0]),
    "probability": lambda model, x, moved, change: -change,
    "logit_difference": lambda model, x, moved, change: moved[..., 1] - moved[..., 0],
    "kl": lambda model, x, moved, change: divergence(model, x),
}
"""Effects of patches (B, N): the indirect effect; the fall of the clean answer's probability, or of its logit
minus the corrupt answer's; the KL divergence. Arguments: the model, the residual stream (B, 1 + N, d), the changes
of the two answers' log-probabilities (B, N, 2) and of the clean answer's probability (B, N)."""
RANKINGS = {"effect": "indirect_effect", "probability": "probability"}
"""The metric that ranks the neurons, by the value of the configuration's key `ranking`."""


def effects_beside_clean(
    model: Decoder,
    layer: int,
    x: Tensor,
    ordinary: Tensor,
    answers: Tensor,
    near: NearReadout | None = None,
    metric: str = "indirect_effect",
) -> Tensor:
    """Effects of patches of the last token that ran in one batch, whose first run patches nothing.

    The first run's log-probabilities are the clean ones, because low precision changes with the batch's shape.
    They are checked against the ordinary pass.

    Args:
        layer: the patched layer, for messages.
        x: residual stream after the last layer, (B, 1 + N, d).
        ordinary: the answers' log-probabilities in the ordinary pass, (B, 1, 2).
        answers: token ids of the clean and of the corrupt answer, (B, 2).
        near: `near_readout` of the same prompts; None reads out every patch in full.
        metric: a key of `RANKING_METRICS`.

    Returns:
        Effects, and changes of the clean answer's probability, (2, B, N), float64: a strong effect may exceed
        float32's range.

    Raises:
        RuntimeError: replay disagrees with the ordinary pass, or an effect is not a finite number.
    """
    if near is None:
        logs = log_probabilities(model, x, answers)
    else:
        logs = log_probabilities_near(model, x, answers, near)
    clean = logs[:, :1]
    error = (clean - ordinary).abs().max().item()
    if not error <= _NO_OP_TOLERANCE[matmul_precision(model)]:
        raise RuntimeError(f"layer {layer}: replay differs from the ordinary pass by {error:.1e} in log P")
    moved = (logs[:, 1:] - clean).double()
    change = clean[..., 0].double().exp() * moved[..., 0].expm1()
    effects = RANKING_METRICS[metric](model, x, moved, change)
    if not effects.isfinite().all():
        raise RuntimeError(f"layer {layer}: an effect is not a finite number; use --dtype float32")
    return torch.stack([effects, change])
