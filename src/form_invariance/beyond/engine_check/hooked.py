"""The slow, plain methods: TransformerLens hooks over whole sequences. Nothing here uses the package's engine."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from form_invariance.beyond.engine_check.sample import NO_LAYER, CheckedPrompts, CheckedValues
from form_invariance.beyond.engine_check.transformer_lens_bridge import neurons_at, residual_before

Hook = Callable[..., Tensor]


def _logits(bridge: Any, tokens: Tensor, hooks: dict[int, Hook] | None = None) -> Tensor:
    """Logits at the last token, (B, V), float32, under hooks on the neurons of some layers."""
    named = [(neurons_at(layer), hook) for layer, hook in (hooks or {}).items()]
    logits: Tensor = bridge.run_with_hooks(tokens, fwd_hooks=named)[:, -1]
    return logits.float()


def _last_token(bridge: Any, tokens: Tensor, layers: range) -> tuple[dict[int, Tensor], Tensor]:
    """The last token's activations in each layer, (B, m), and its logits, (B, V)."""
    neurons = {}

    def keep(layer: int) -> Hook:
        def hook(activation: Tensor, hook: object) -> Tensor:
            neurons[layer] = activation[:, -1].clone()
            return activation

        return hook

    z = _logits(bridge, tokens, {layer: keep(layer) for layer in layers})
    return neurons, z


def _log_probability(z: Tensor, answers: Tensor) -> Tensor:
    """Log-probability of the answers (B,) under logits z (B, V), float64."""
    return z.double().log_softmax(-1).gather(1, answers[:, None])[:, 0]


def _patched_effects(
    bridge: Any, sample: CheckedPrompts, layer: int, activations: Tensor, corrupt: Tensor
) -> Tensor:
    """Indirect effects of the neurons of one layer, each patched alone; the last patch changes nothing.

    One batch contains the first prompt unpatched, with each patch, and with a neuron set to its own value.

    Args:
        activations: the last token's activations in the layer, (m,).
        corrupt: those of the corrupt prompt, (m,).

    Returns:
        (1, C + 1), float64.
    """
    patched = sample.neurons[layer]
    neurons = torch.cat([patched, patched[:1]])  # (C + 1,)
    patch_values = torch.cat([corrupt[patched], activations[patched[:1]]])  # (C + 1,)

    def patch(activation: Tensor, hook: object) -> Tensor:
        activation = activation.clone()
        for number, neuron in enumerate(neurons.tolist()):
            activation[1 + number, -1, neuron] = patch_values[number].to(activation.dtype)
        return activation

    z = _logits(bridge, sample.tokens[:1].expand(1 + len(neurons), -1), {layer: patch})
    p = z.double().softmax(-1)[None, :, sample.answers[0]]  # (1, 1 + C + 1, 2)
    clean, changed = p[:, :1], p[:, 1:]
    right, wrong = 0, 1
    # The indirect effect as the paper prints it (Eq. 4).
    return 0.5 * (
        (changed[..., wrong] - clean[..., wrong]) / clean[..., wrong]
        + (clean[..., right] - changed[..., right]) / changed[..., right]
    )


def _gradients(bridge: Any, sample: CheckedPrompts, layers: range) -> dict[int, Tensor]:
    """By layer, the gradient of half the logit difference (corrupt − clean) in the last token's neurons (B, m)."""
    gradients = {}

    def start(residual: Tensor, hook: object) -> Tensor:
        return residual.detach().requires_grad_()

    def keep(layer: int) -> Callable[..., None]:
        def hook(gradient: Tensor, hook: object) -> None:
            gradients[layer] = gradient[:, -1].clone()

        return hook

    backward = [(neurons_at(layer), keep(layer)) for layer in layers]
    hooks = bridge.hooks(fwd_hooks=[(residual_before(layers[0]), start)], bwd_hooks=backward)
    with torch.enable_grad(), hooks:
        picked = bridge(sample.tokens)[:, -1].float().gather(1, sample.answers)
        (0.5 * (picked[:, 1] - picked[:, 0]).sum()).backward()
    return gradients


def _kept(bridge: Any, sample: CheckedPrompts, layers: range) -> Tensor:
    """Log-probability of the right answer (B,) with all late neurons outside the set at their means."""
    begin = int(sample.bos)

    def ablate(layer: int) -> Hook:
        def hook(activation: Tensor, hook: object) -> Tensor:
            activation = activation.clone()
            tail = activation[:, begin:]
            means = sample.means.neurons[layer].to(tail.dtype)
            # A prompt may be longer than any that gave the means: then its first tokens take the farthest mean.
            means = torch.stack(
                [means[min(from_end, len(means) - 1)] for from_end in reversed(range(tail.shape[1]))]
            )
            activation[:, begin:] = torch.where(sample.neuron_set[layer - layers[0]], tail, means)
            return activation

        return hook

    hooks = {layer: ablate(layer) for layer in layers}
    return _log_probability(_logits(bridge, sample.tokens, hooks), sample.answers[:, 0])


def _transferred(bridge: Any, sample: CheckedPrompts, layers: range) -> Tensor:
    """Log-probability of the right answer (B,) with the donors' values in the set's neurons at the last token."""
    donors, _ = _last_token(bridge, sample.donors, layers)

    def give(layer: int) -> Hook:
        def hook(activation: Tensor, hook: object) -> Tensor:
            activation = activation.clone()
            mask = sample.neuron_set[layer - layers[0]]
            activation[:, -1] = torch.where(mask, donors[layer], activation[:, -1])
            return activation

        return hook

    hooks = {layer: give(layer) for layer in layers}
    return _log_probability(_logits(bridge, sample.tokens, hooks), sample.answers[:, 0])


@torch.no_grad()
def hooked_values(bridge: Any, sample: CheckedPrompts) -> CheckedValues:
    """TransformerLens's values, with the keys of `sample.Values`."""
    layers = sample.layers
    clean, z = _last_token(bridge, sample.tokens, layers)
    partners = [_last_token(bridge, partner, layers)[0] for partner in sample.partners]
    gradients = _gradients(bridge, sample, layers)
    values: CheckedValues = {("logits", NO_LAYER): z}
    for layer in layers:
        corrupt = torch.cat([partner[layer] for partner in partners])
        values["attribution", layer] = (corrupt - clean[layer]) * gradients[layer]
        if layer in sample.neurons:
            effects = _patched_effects(bridge, sample, layer, clean[layer][0], corrupt[0])
            values["patch", layer], values["no_op", layer] = effects[:, :-1], effects[:, -1:]
    values["keep_only", NO_LAYER] = _kept(bridge, sample, layers)
    values["transfer", NO_LAYER] = _transferred(bridge, sample, layers)
    return {key: value.double().cpu() for key, value in values.items()}
