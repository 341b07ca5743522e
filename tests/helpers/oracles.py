"""The slow, plain methods that the fast ones are compared with: TransformerLens hooks over whole sequences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from form_invariance.beyond.engine_check.transformer_lens_bridge import boot, neurons_at

bridge = boot
"""The model of a Hugging Face folder in TransformerLens."""


@torch.no_grad()
def last_logits(model: Any, tokens: Tensor, hooks: list[tuple[str, Callable]] = ()) -> Tensor:
    """Logits at the last token, (B, V), of the whole sequences under hooks."""
    return model.run_with_hooks(tokens, fwd_hooks=list(hooks))[:, -1].detach()


@torch.no_grad()
def all_neurons(model: Any, tokens: Tensor, layers: range) -> Tensor:
    """hook_post of every position, (layers, B, T, m)."""
    names = [neurons_at(layer) for layer in layers]
    _, found = model.run_with_cache(tokens, names_filter=names)
    return torch.stack([found[name] for name in names])


def indirect_effect(clean: Tensor, patched: Tensor, answers: Tensor) -> np.ndarray:
    """The paper's Eq. 4 as it is printed, from logits (B, V) in double precision; (B,)."""
    p, p_star = (z.double().softmax(-1).gather(1, answers).numpy() for z in (clean, patched))
    r, corrupt = 0, 1
    return 0.5 * ((p_star[:, corrupt] - p[:, corrupt]) / p[:, corrupt] + (p[:, r] - p_star[:, r]) / p_star[:, r])


def patched_effects(
    model: Any, tokens: Tensor, corrupt: Tensor, answers: Tensor, layer: int, neurons: list[int]
) -> np.ndarray:
    """Indirect effects of patching each neuron alone by full hooked forward passes, and the changes of the clean
    answer's probability, (2, B, neurons)."""
    clean, given = last_logits(model, tokens), all_neurons(model, corrupt, range(layer, layer + 1))[0, :, -1]

    def patched(neuron):
        def hook(activation, hook):
            activation = activation.clone()
            activation[:, -1, neuron] = given[:, neuron]
            return activation

        return last_logits(model, tokens, [(neurons_at(layer), hook)])

    columns = []
    for z in map(patched, neurons):
        p, p_star = (some.double().softmax(-1).gather(1, answers)[:, 0].numpy() for some in (clean, z))
        columns.append(np.stack([indirect_effect(clean, z, answers), p_star - p]))
    return np.stack(columns, axis=2)


def replace_neurons(mask: Tensor, values: Tensor, positions: slice) -> Callable:
    """Hook: at `positions`, neurons in mask (m,) take values (T, m), counted from the first token."""

    def hook(activation, hook):
        activation = activation.clone()
        chosen = activation[:, positions]
        activation[:, positions] = torch.where(mask, values[positions].to(chosen.dtype), chosen)
        return activation

    return hook


def readout(z: Tensor, answers: Tensor, center: bool) -> dict[str, np.ndarray]:
    """What the stages measure of logits (B, V), each (B,)."""
    log_probability = z.double().log_softmax(-1).gather(1, answers[:, None])[:, 0].numpy()
    return {
        "accuracy": (z.argmax(-1) == answers).double().numpy(),
        "probability": np.exp(log_probability),
        "normalized_logit": normalized_logit(z, answers, center),
        "loss": -log_probability,
    }


def normalized_logit(z: Tensor, answers: Tensor, center: bool) -> np.ndarray:
    """logit[r] / max logit from logits (B, V)."""
    z = z.double()
    if center:
        z = z - z.mean(-1, keepdim=True)
    return (z.gather(1, answers[:, None])[:, 0] / z.max(-1).values).numpy()


def ablated(model: Any, tokens: Tensor, first: int, mask: Tensor, means: Tensor, positions: slice) -> Tensor:
    """Logits at the last token, (B, V), with neurons of the late layers at means: mask (L, m), means (L, T, m)."""
    hooks = [
        (neurons_at(first + late), replace_neurons(own, means[late], positions)) for late, own in enumerate(mask)
    ]
    return last_logits(model, tokens, hooks)


def rounding(found, expected):
    """The largest difference divided by the largest value, with which rounding errors grow."""
    return (found - expected).abs().max() / expected.abs().max()
