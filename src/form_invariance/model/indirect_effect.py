"""The indirect effect of a patch, and the check that a patch of nothing has none (paper, section 4.2, Eq. 4)."""

import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder
from form_invariance.model.replay import log_probabilities

# Replay rounds otherwise than the ordinary pass, because its matrix products have other shapes.
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


def effects_beside_clean(model: Decoder, layer: int, x: Tensor, ordinary: Tensor, answers: Tensor) -> Tensor:
    """Indirect effects of patches of the last token that ran in one batch, the first of which patches nothing.

    Its log-probabilities are the clean ones that the others are compared with (low precision changes with the
    batch's shape), and they are checked against the ordinary pass.

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
    float32 = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "float32"
    if not error <= _NO_OP_TOLERANCE["bfloat16" if model.dtype == torch.bfloat16 else float32]:
        raise RuntimeError(f"layer {layer}: replay differs from the ordinary pass by {error:.1e} in log P")
    moved = (logs[:, 1:] - clean).double()
    effects = indirect_effect(moved[..., 1], moved[..., 0])
    if not effects.isfinite().all():
        raise RuntimeError(f"layer {layer}: an indirect effect is not a finite number; use --dtype float32")
    return effects
