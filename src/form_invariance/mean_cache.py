"""Mean activations of every neuron and head, by position from the last token (paper, section 4.4).

The mean is taken over prompts that share no operand pair with any dataset. BOS is left out: its
activations do not depend on the prompt, so it is never ablated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.decoder import Decoder, embed, run_layers
from form_invariance.errors import UserError
from form_invariance.finite import check_finite
from form_invariance.prompts import PromptTokenizer
from form_invariance.randomness import generator
from form_invariance.tables_io import read_tensors


@dataclass
class MeanCache:
    """Means by layer and by position from the last token (0 = the last), over P positions."""

    neurons: list[Tensor]  # per layer (P, m)
    heads: list[Tensor]  # per layer (P, H, D)
    variance: list[Tensor]  # per layer (m,): of the last token's activations
    count: Tensor  # (P,): prompts that have the position


def choose_prompts(
    censuses: dict[str, pd.DataFrame], excluded: Sequence[pd.DataFrame], prompts: int, seed: int
) -> dict[str, list[str]]:
    """Prompts of each operator whose operand pair, in either order, is in no dataset.

    Args:
        censuses: census table of each operator (columns a, b, uniform, prompt).
        excluded: datasets (columns a, b).
        prompts: how many in all, the same number of each operator where it has as many.

    Raises:
        UserError: an operator has none left.
    """
    taken = {frozenset(pair) for table in excluded for pair in zip(table["a"], table["b"], strict=True)}
    chosen = {}
    for operator, census in censuses.items():
        free = np.array([frozenset(pair) not in taken for pair in zip(census["a"], census["b"], strict=True)])
        pool = census.loc[census["uniform"] & free, "prompt"].to_numpy()
        if not len(pool):
            raise UserError(
                f"mean cache: every census pair of {operator} is in a dataset; raise census_pairs or widen "
                "the operand range"
            )
        order = generator(seed, "mean-cache", operator).permutation(len(pool))
        chosen[operator] = pool[order[: -(-prompts // len(censuses))]].tolist()
    return chosen


class _Sums:
    """Running sums of one tensor over prompts and positions, in double precision."""

    def __init__(self) -> None:
        self.total: Tensor | None = None

    def add(self, values: Tensor) -> None:
        """Add values (B, T, ...), the token axis reversed so that position 0 is the last token."""
        sums = values.double().sum(0).flip(0)
        if self.total is None:
            self.total = sums
            return
        short, long = sorted((self.total, sums), key=len)
        self.total = long.clone()
        self.total[: len(short)] += short

    def mean(self, count: Tensor) -> Tensor:
        """The mean over the prompts that have each position, float32."""
        assert self.total is not None
        return check_finite(
            (self.total / count.view(-1, *[1] * (self.total.dim() - 1))).float(), "the mean activations"
        )


@torch.no_grad()
def compute(
    model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[Sequence[str]], batch: int = 128
) -> MeanCache:
    """Average over groups of prompts of equal length within a group (one group an operator)."""
    layers = model.config.n_layers
    neurons, heads = [_Sums() for _ in range(layers)], [_Sums() for _ in range(layers)]
    squares, counts = [_Sums() for _ in range(layers)], _Sums()
    skip = int(tokenizer.bos is not None)

    def on_neurons(layer: int, post: Tensor) -> Tensor:
        neurons[layer].add(post[:, skip:])
        squares[layer].add(post[:, -1:].double() ** 2)
        return post

    def on_heads(layer: int, z: Tensor) -> Tensor:
        heads[layer].add(z[:, skip:])
        return z

    for group in prompts:
        for start in range(0, len(group), batch):
            tokens = torch.from_numpy(tokenizer.encode_batch(group[start : start + batch])).to(model.device)
            counts.add(torch.ones(tokens.shape[0], tokens.shape[1] - skip))
            run_layers(model, embed(model, tokens), on_neurons=on_neurons, on_heads=on_heads)
    assert counts.total is not None
    count = counts.total.to(model.device)
    means = [sums.mean(count) for sums in neurons]
    variance = [
        (square.mean(count[:1])[0] - mean[0] ** 2).clamp_min(0)
        for square, mean in zip(squares, means, strict=True)
    ]
    return MeanCache(means, [sums.mean(count) for sums in heads], variance, count)


def to_tensors(cache: MeanCache) -> dict[str, Tensor]:
    """Named tensors for a file; `from_tensors` reads them back."""
    tensors = {"count": cache.count}
    for layer in range(len(cache.neurons)):
        tensors[f"neurons.{layer}"] = cache.neurons[layer]
        tensors[f"heads.{layer}"] = cache.heads[layer]
        tensors[f"variance.{layer}"] = cache.variance[layer]
    return tensors


def from_tensors(tensors: dict[str, Tensor], model: Decoder) -> MeanCache:
    """The mean cache of a file's tensors, in the model's precision and on its device.

    Raises:
        UserError: it was made with a model of another shape.
    """
    layers = model.config.n_layers
    names = [f"{kind}.{layer}" for kind in ("neurons", "heads", "variance") for layer in range(layers)]
    if set(tensors) != {"count", *names} or tensors["neurons.0"].shape[1] != model.config.d_mlp:
        raise UserError("the mean cache was made with a model of another shape; make it again with this model")

    def of(kind: str) -> list[Tensor]:
        return [tensors[f"{kind}.{layer}"].to(model.device, model.dtype) for layer in range(layers)]

    return MeanCache(of("neurons"), of("heads"), of("variance"), tensors["count"])


def read_means(path: Path, model: Decoder) -> MeanCache:
    """Read a mean cache's file, in the model's precision and on its device."""
    arrays, _ = read_tensors(path, "mean_cache")
    return from_tensors({name: torch.from_numpy(array) for name, array in arrays.items()}, model)


def aligned(means: Tensor, tokens: int) -> Tensor:
    """Means (P, ...) by position from the last token, laid out for a prompt: (tokens, ...), first token first.

    The first token's row is only there for BOS, which is not ablated, where the cache is one shorter.

    Raises:
        UserError: the prompt is longer than any that the cache was made of.
    """
    if tokens > len(means) + 1:
        raise UserError(
            f"a prompt of {tokens} tokens is longer than the mean cache's {len(means)} positions; make the "
            "mean cache from prompts of the same templates"
        )
    laid = means[: min(tokens, len(means))].flip(0)
    return torch.cat([laid[:1], laid]) if tokens > len(laid) else laid
