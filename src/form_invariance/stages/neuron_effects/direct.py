"""What each shared neuron writes for the answers directly: past all later layers, through the final norm alone.

A neuron adds its activation times a fixed direction to the residual stream. The final norm divides the stream by a
number of each prompt, and the unembedding is linear. So with this number as it is in the model's own pass, a
neuron's direct effect on a logit is a product: what it writes x the logit of one unit x the norm's scale, and the
effects of several neurons add up. In the same way a neuron writes to the gate of a neuron in a later layer.
"""

from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, Norm, logits, normalise
from form_invariance.model.finite import check_finite
from form_invariance.model.replay import build_cache
from form_invariance.stages.heuristics.activations import answer_logits, unit_writes
from form_invariance.stages.neuron_effects.direct_files import TOP, DirectEffects
from form_invariance.tables.progress import track

BATCH = 64
"""Prompts that run at once."""


def _scale(model: Decoder, x: Tensor, norm: Norm | None) -> Tensor:
    """By what a norm multiplies the residual stream x (B, d), besides its weights, (B,)."""
    if norm is None:
        return torch.ones(len(x), device=x.device)
    x = x.float()
    centred = x if norm.bias is None else x - x.mean(-1, keepdim=True)
    return (centred.square().mean(-1) + model.config.norm_epsilon).rsqrt()


def _last_token(model: Decoder, tokens: Tensor, neurons: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """What the neurons write and the norms' scales at the last token of prompts (B, T) of one length.

    Returns:
        written and input_scale, (B, n), as in `DirectEffects`, and the residual stream after all layers, (B, d).
    """
    first = min(neurons)
    cache = build_cache(model, tokens, first)
    written, scales = [], []
    for layer, numbers in neurons.items():
        weights, post = model.layers[layer], cache.neurons[layer - first]
        output = F.linear(post, weights.down, weights.down_bias)
        before, after = cache.residual[layer - first], cache.residual[layer - first + 1]
        read = before if model.config.parallel else after - normalise(model, output, weights.mlp_post_norm)
        written.append(post[:, numbers].float() * _scale(model, output, weights.mlp_post_norm)[:, None])
        scales.append(_scale(model, read, weights.mlp_norm)[:, None].expand(-1, len(numbers)))
    return torch.cat(written, dim=1), torch.cat(scales, dim=1), cache.residual[-1]


def unit_inputs(model: Decoder, neurons: Mapping[int, np.ndarray]) -> np.ndarray:
    """What one unit of each neuron adds to the gates of the neurons in later layers, as in `DirectEffects`."""
    columns = []
    for later, readers in neurons.items():
        weights = model.layers[later]
        reads = (weights.up if weights.gate is None else weights.gate)[
            torch.tensor(readers, device=model.device)
        ].float()
        if weights.mlp_norm is not None:
            reads = reads * weights.mlp_norm.weight.float()
            if weights.mlp_norm.bias is not None:  # LayerNorm takes the mean away.
                reads = reads - reads.mean(1, keepdim=True)
        writes = [
            unit_writes(model, layer, numbers).float() * (layer < later) for layer, numbers in neurons.items()
        ]
        columns.append(torch.cat(writes) @ reads.T)
    return torch.cat(columns, dim=1).cpu().numpy() if columns else np.zeros((0, 0), dtype=np.float32)


@torch.no_grad()
def direct_effects(
    model: Decoder, tokens: Tensor, answers: np.ndarray, neurons: Mapping[int, np.ndarray]
) -> DirectEffects:
    """Direct effects of neurons on answers at the last token of prompts.

    Args:
        tokens: token ids (P, T), shorter prompts padded on the left (`model.batches`).
        answers: token ids of the answers to score, (A,), each once.
        neurons: the neurons of each layer, both in ascending order. Without any, no prompt runs, and P is 0.

    Raises:
        UserError: the model's logits are not finite.
    """
    pairs = [(layer, number) for layer, numbers in neurons.items() for number in numbers.tolist()]
    tokens = tokens if pairs else tokens[:0]
    prompts, kept = len(tokens), min(TOP, len(answers))
    shape = prompts, len(pairs)
    written, input_scale = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32)
    final_scale, log_total = np.empty(prompts, dtype=np.float32), np.empty(prompts, dtype=np.float32)
    predicted = np.empty(prompts, dtype=np.int64)
    top, top_logits = np.empty((prompts, kept), dtype=np.int64), np.empty((prompts, kept), dtype=np.float32)
    chosen = {layer: torch.tensor(numbers, device=model.device) for layer, numbers in neurons.items()}
    scored = torch.tensor(answers, device=model.device)
    for rows, batch in track(by_length(tokens, BATCH), prompts, "problems", weight=BATCH):
        at = rows.cpu().numpy()
        parts = _last_token(model, batch, chosen)
        written[at], input_scale[at] = (part.cpu().numpy() for part in parts[:2])
        final_scale[at] = _scale(model, parts[2], model.final_norm).cpu().numpy()
        z = check_finite(logits(model, parts[2]), "the model's logits").double()
        z = z - z.mean(1, keepdim=True)
        log_total[at] = z.logsumexp(1).cpu().numpy()
        predicted[at] = z.argmax(1).cpu().numpy()
        best = z[:, scored].sort(dim=1, descending=True, stable=True)
        top[at], top_logits[at] = best.indices[:, :kept].cpu().numpy(), best.values[:, :kept].cpu().numpy()
    return DirectEffects(
        neurons=np.array(pairs, dtype=np.int64).reshape(-1, 2),
        answers=answers,
        written=written,
        unit_logits=answer_logits(model, answers, neurons),
        final_scale=final_scale,
        unit_inputs=unit_inputs(model, neurons),
        input_scale=input_scale,
        top=top,
        top_logits=top_logits,
        log_total=log_total,
        predicted=predicted,
    )
