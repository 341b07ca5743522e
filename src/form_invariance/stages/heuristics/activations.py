"""Activation maps of a model's neurons over the analysis grid (method, section 9)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.readout import check_finite
from form_invariance.model.decoder import Decoder
from form_invariance.model.prefixes import run_prompts
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.circuit.table import by_layer
from form_invariance.stages.heuristics.baselines import directions, mixed_neurons, smooth_noise
from form_invariance.stages.heuristics.names import DIRECTION, NOISE
from form_invariance.stages.heuristics.pairs import Grid, grid_prompts


def operand_maps(
    model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[str], neurons: Mapping[int, np.ndarray]
) -> np.ndarray:
    """K maps: the last token's activation of every neuron on every pair, (neurons, N) float32.

    Args:
        prompts: one prompt for each of N pairs.
        neurons: indices of neurons by layer, layers in ascending order.
    """
    tokens = tokenizer.encode_batch(prompts)
    columns = {layer: torch.tensor(numbers, device=model.device) for layer, numbers in neurons.items()}
    result = np.empty((sum(map(len, neurons.values())), len(prompts)), dtype=np.float32)
    if not len(result):
        return result
    kept: list[Tensor] = []

    def keep(layer: int, post: Tensor) -> Tensor:
        if layer in columns:
            kept.append(check_finite(post[:, -1, columns[layer]].float(), "the activations"))
        return post

    for rows, _ in run_prompts(model, tokens, stop=max(neurons) + 1, on_neurons=keep):
        result[:, rows] = torch.cat(kept, dim=1).T.cpu().numpy()
        kept.clear()
    return result


def answer_logits(model: Decoder, answer_tokens: np.ndarray, neurons: Mapping[int, np.ndarray]) -> np.ndarray:
    """The logit that one unit of each neuron adds to each of N answers, (neurons, N) float32.

    The norms' weights are folded in and the unembedding is centred over the vocabulary. As in the published maps,
    no norm divides by the root mean square.

    Args:
        answer_tokens: token ids of the answers, (N,).
        neurons: as in `operand_maps`.
    """
    answers, of_pair = np.unique(answer_tokens, return_inverse=True)
    ids = torch.from_numpy(answers).to(model.device)
    centred = model.unembedding[ids] - model.unembedding.mean(0)
    centred = centred * model.final_norm.weight.float()
    values = [unit_writes(model, layer, numbers) for layer, numbers in neurons.items()]
    if not values:
        return np.empty((0, len(answer_tokens)), dtype=np.float32)
    by_answer = torch.cat(values).float() @ centred.T  # (neurons, answers)
    return np.ascontiguousarray(by_answer.cpu().numpy()[:, of_pair])


def unit_writes(model: Decoder, layer: int, neurons: np.ndarray) -> Tensor:
    """The vector that one unit of each neuron adds to the residual stream, (neurons, d).

    A post-norm's weight is applied, its division is left out. For a final LayerNorm the mean is subtracted.
    """
    weights = model.layers[layer]
    values = weights.down.T[torch.tensor(neurons, device=model.device)]
    if weights.mlp_post_norm is not None:
        values = values * weights.mlp_post_norm.weight
    # Only a LayerNorm has a bias.
    return values if model.final_norm.bias is None else values - values.mean(1, keepdim=True)


def cell_maps(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    operator: str,
    grid: Grid,
    neurons: pd.DataFrame,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """K maps of all labelled neurons of a cell, (neurons, N), and their logit of each answer, (neurons, answers).

    Args:
        template: prompt with the fields {a} and {b}.
        operator: name of the operator, for messages and seeded choices.
        neurons: columns neurons, layer, neuron, sorted by these.

    Raises:
        UserError: the template breaks a rule.
    """
    prompts, answer_tokens = grid_prompts(grid, tokenizer, template, f"template of {operator}")
    answers = answer_tokens[np.unique(grid.answer, return_index=True)[1]]
    kinds = [str(kind) for kind in neurons["neurons"].unique()]
    layers = {kind: by_layer(neurons[neurons["neurons"] == kind]) for kind in kinds}
    mixed = mixed_neurons([*layers.get(DIRECTION, {})], model.config.d_mlp, seed, operator)
    read = [group for kind, group in layers.items() if kind not in (DIRECTION, NOISE)] + [mixed]
    # The model runs once for the neurons of all kinds.
    needed = {
        layer: np.unique(np.concatenate([group[layer] for group in read if layer in group]))
        for layer in sorted({*chain(*read)})
    }
    k_maps, logits = operand_maps(model, tokenizer, prompts, needed), answer_logits(model, answers, needed)
    start = dict(zip(needed, np.cumsum([0, *map(len, needed.values())]), strict=False))

    def of(group: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        positions = [start[layer] + np.searchsorted(needed[layer], numbers) for layer, numbers in group.items()]
        rows = np.concatenate([*positions, np.empty(0, dtype=np.int64)])
        return k_maps[rows], logits[rows]

    def of_kind(kind: str) -> tuple[np.ndarray, np.ndarray]:
        if kind == NOISE:
            count = int((neurons["neurons"] == NOISE).sum())
            noise = smooth_noise(grid, count, seed, f"{operator}/{template}")
            return noise, np.ones((count, len(answers)), dtype=np.float32)
        if kind != DIRECTION:
            return of(layers[kind])
        return _joined(
            directions(*of({layer: mixed[layer]}), len(numbers), seed, operator, layer)
            for layer, numbers in layers[kind].items()
        )

    return _joined([of_kind(kind) for kind in kinds] or [of({})])


def _joined(parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    maps, logits = zip(*parts, strict=True)
    return np.concatenate(maps), np.concatenate(logits)
