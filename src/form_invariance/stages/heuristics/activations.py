"""Activation maps of a model's neurons over the analysis grid (method, section 9)."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from form_invariance.experiment.readout import check_finite
from form_invariance.model.decoder import Decoder
from form_invariance.model.prefixes import run_prompts
from form_invariance.problems.prompts import PromptTokenizer


def operand_maps(
    model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[str], neurons: Mapping[int, np.ndarray]
) -> np.ndarray:
    """K maps: the last token's activation of every neuron on every pair, (neurons, N) float32.

    Args:
        prompts: of the pairs, N.
        neurons: the neurons of each layer, by layer in ascending order.
    """
    tokens = tokenizer.encode_batch(prompts)
    chosen = {layer: torch.tensor(numbers, device=model.device) for layer, numbers in neurons.items()}
    result = np.empty((sum(map(len, neurons.values())), len(prompts)), dtype=np.float32)
    if not len(result):
        return result
    kept: list[Tensor] = []

    def keep(layer: int, post: Tensor) -> Tensor:
        if layer in chosen:
            kept.append(check_finite(post[:, -1, chosen[layer]].float(), "the activations"))
        return post

    for rows, _ in run_prompts(model, tokens, stop=max(neurons) + 1, on_neurons=keep):
        result[:, rows] = torch.cat(kept, dim=1).T.cpu().numpy()
        kept.clear()
    return result


def answer_logits(model: Decoder, answer_tokens: np.ndarray, neurons: Mapping[int, np.ndarray]) -> np.ndarray:
    """The logit that one unit of each neuron adds to each pair's answer, (neurons, N) float32.

    The norms' weights are folded in and the unembedding is centred over the vocabulary; a norm's division by
    the root mean square is left out, as in the published maps.

    Args:
        answer_tokens: ids of the pairs' answers, (N,).
        neurons: as in `operand_maps`.
    """
    answers, place = np.unique(answer_tokens, return_inverse=True)
    ids = torch.from_numpy(answers).to(model.device)
    centred = model.unembedding[ids] - model.unembedding.mean(0)
    centred = centred * model.final_norm.weight.float()
    values = [unit_writes(model, layer, numbers) for layer, numbers in neurons.items()]
    if not values:
        return np.empty((0, len(answer_tokens)), dtype=np.float32)
    by_answer = torch.cat(values).float() @ centred.T  # (neurons, answers)
    return np.ascontiguousarray(by_answer.cpu().numpy()[:, place])


def unit_writes(model: Decoder, layer: int, neurons: np.ndarray) -> Tensor:
    """What one unit of each neuron adds to the residual stream, as a later norm sees it, (neurons, d).

    What a post-norm divides by is left out.
    """
    weights = model.layers[layer]
    values = weights.down.T[torch.tensor(neurons, device=model.device)]
    if weights.mlp_post_norm is not None:
        values = values * weights.mlp_post_norm.weight
    # LayerNorm, which alone has a bias, takes the mean away.
    return values if model.final_norm.bias is None else values - values.mean(1, keepdim=True)
