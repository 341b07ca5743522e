"""Integrated gradients of the indirect effect: another first stage (method, section 4)."""

import torch
from torch import Tensor

from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.finite import check_finite
from form_invariance.model.replay import LastTokenCache, build_cache, replay

STEPS = 10
"""Points between the clean and the corrupt activations."""
_ROWS = 256
"""Replayed rows at once: their whole logits are kept for the gradient."""


def _along(
    model: Decoder, cache: LastTokenCache, layer: int, change: Tensor, answers: Tensor, steps: int
) -> Tensor:
    """Mean gradient of the indirect effect by a layer's neurons on the way to `change` more, (B, m), float64.

    All neurons of the layer move together, and the later layers respond. The gradient is taken in the middle of
    each step (midpoint rule). The effect is a sum of exponentials, which all neurons together may drive beyond
    float32; so their largest factor is taken out of the gradient, and multiplied with it in float64.
    """
    late = layer - cache.first
    way = (torch.arange(steps, device=change.device) + 0.5) / steps
    moved = cache.neurons[late][:, None] + way[:, None].to(change.dtype) * change[:, None]  # (B, steps, m)
    with torch.enable_grad():
        moved = moved.detach().requires_grad_()
        before = cache.residual[late][:, None].expand(-1, steps, -1)
        x = replay(model, cache, before, layer, on_neurons=lambda at, post: moved if at == layer else post)
        clean = logits(model, cache.residual[-1]).log_softmax(-1).gather(1, answers)[:, None]
        wanted = answers[:, None].expand(-1, steps, -1)
        changes = logits(model, x).log_softmax(-1).gather(2, wanted) - clean  # (B, steps, 2)
        signed = changes * torch.tensor([-1.0, 1.0], device=changes.device)
        largest = signed.detach().amax(-1)  # (B, steps)
        # ∂IE = ½ Σ exp(signed) ∂signed (method, section 4)
        weights = (signed.detach() - largest[..., None]).exp() / 2
        (gradient,) = torch.autograd.grad((weights * signed).sum(), moved)
    return (gradient.double() * largest.double().exp()[..., None]).mean(1)


def integrate(
    model: Decoder, tokens: Tensor, corrupt: Tensor, answers: Tensor, first: int, steps: int = STEPS
) -> Tensor:
    """Integrated gradients of every late neuron on every prompt (Sundararajan et al. 2017), layer by layer.

    Summed over a layer's neurons they converge, with many steps, to the exact effect of moving all of them.

    Args:
        tokens: clean prompts, (P, T), shorter ones padded on the left (`model.batches`).
        corrupt: the corrupt prompts' last-token activations, (late layers, P, m).
        answers: token ids of the clean and of the corrupt answer, (P, 2).
        first: first late layer.
        steps: points between the clean and the corrupt activations.

    Returns:
        (a_corrupt - a_clean) · mean of ∂IE/∂a on the straight line between them, (late layers, P, m), float64.
    """
    every, attributions = [], []
    for rows, batch in by_length(tokens, max(1, _ROWS // steps)):
        cache = build_cache(model, batch, first)
        layers = []
        for late in range(len(cache.neurons)):
            change = corrupt[late, rows] - cache.neurons[late]
            layers.append(change.double() * _along(model, cache, first + late, change, answers[rows], steps))
        every.append(rows)
        attributions.append(check_finite(torch.stack(layers), "the integrated gradients"))
    return in_order(every, attributions, dim=1)
