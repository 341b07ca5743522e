"""Mean activations, which replace the activations of ablated neurons and heads, and their file."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.experiment.neuron_sets import MEANS_HALVES
from form_invariance.model.decoder import Decoder
from form_invariance.tables.files import read_tensors


@dataclass
class MeanCache:
    """Means by layer and by position from the last token (0 = the last), over P positions.

    `halves` has the means over each half of the prompts, by the names `MEANS_HALVES`; empty for a single prompt.
    """

    neurons: list[Tensor]  # per layer (P, m)
    heads: list[Tensor]  # per layer (P, H, D)
    variance: list[Tensor]  # per layer (m,): of the last token's activations
    count: Tensor  # (P,): prompts that have the position
    halves: dict[str, "MeanCache"] = field(default_factory=dict)

    def last_token(self, first: int) -> Tensor:
        """The means at the last token in the layers from `first` on, (late layers, m)."""
        return torch.stack([mean[0] for mean in self.neurons[first:]])

    def late_variance(self, first: int) -> np.ndarray:
        """The variance in the layers from `first` on, (late layers, m)."""
        return torch.stack(self.variance[first:]).float().cpu().numpy()


def to_tensors(cache: MeanCache) -> dict[str, Tensor]:
    """Named tensors for a file; `from_tensors` reads them back."""
    tensors = {"count": cache.count}
    for layer in range(len(cache.neurons)):
        tensors[f"neurons.{layer}"] = cache.neurons[layer]
        tensors[f"heads.{layer}"] = cache.heads[layer]
        tensors[f"variance.{layer}"] = cache.variance[layer]
    for half, means in cache.halves.items():
        tensors |= {half + name: tensor for name, tensor in to_tensors(means).items()}
    return tensors


def from_tensors(tensors: dict[str, Tensor], model: Decoder) -> MeanCache:
    """The mean cache of a file's tensors, in the model's precision and on its device.

    Raises:
        UserError: the cache was made with a model of another shape.
    """
    layers = model.config.n_layers
    names = {"count", *(f"{kind}.{layer}" for kind in ("neurons", "heads", "variance") for layer in range(layers))}
    halves = {
        half: {n.removeprefix(half): t for n, t in tensors.items() if n.startswith(half)} for half in MEANS_HALVES
    }
    whole = {name: tensor for name, tensor in tensors.items() if not name.startswith(MEANS_HALVES)}
    if set(whole) != names or whole["neurons.0"].shape[1] != model.config.d_mlp:
        raise UserError("the mean cache was made with a model of another shape; make it again with this model")

    def of(kind: str) -> list[Tensor]:
        return [whole[f"{kind}.{layer}"].to(model.device, model.dtype) for layer in range(layers)]

    by_half = {half: from_tensors(part, model) for half, part in halves.items() if part}
    return MeanCache(of("neurons"), of("heads"), of("variance"), whole["count"], by_half)


def read_means(path: Path, model: Decoder) -> MeanCache:
    """Read a mean cache's file, in the model's precision and on its device."""
    arrays, _ = read_tensors(path, "mean_cache")
    return from_tensors({name: torch.from_numpy(array) for name, array in arrays.items()}, model)


def aligned(means: Tensor, tokens: int) -> Tensor:
    """Means (P, ...) by position from the last token, laid out for a prompt: (tokens, ...), first token first.

    Tokens farther from the end than the cache reaches take the mean of its farthest position. BOS is one of these
    tokens, but is never ablated.
    """
    position = torch.arange(tokens - 1, -1, -1, device=means.device)
    return means[position.clamp_max(len(means) - 1)]
