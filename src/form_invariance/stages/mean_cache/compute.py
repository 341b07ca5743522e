"""Mean activations of every neuron and head, by position from the last token (paper, section 4.3).

The mean is taken over prompts that share no operand pair with any dataset: once over all operators of a format,
and once over each operator's template alone, where a position is the same word in every prompt. BOS is left out:
its activations do not depend on the prompt, so it is never ablated.
"""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.neuron_sets import MEANS_HALVES
from form_invariance.experiment.readout import check_finite
from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, embed, run_layers
from form_invariance.model.prefixes import for_each, run_beginning, shared_beginning
from form_invariance.model.replay import last_token_neurons
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.randomness import generator
from form_invariance.stages.dataset.pairs import without


def choose_prompts(
    censuses: dict[str, pd.DataFrame], excluded: Sequence[pd.DataFrame], prompts: int, seed: int
) -> dict[str, list[str]]:
    """Prompts of each operator whose operand pair, in either order, is in no dataset.

    Args:
        censuses: census table of each operator (columns a, b, uniform, prompt).
        excluded: datasets (columns a, b).
        prompts: total number; each operator has an equal share, or all of its prompts if these are fewer.

    Raises:
        UserError: an operator has none left.
    """
    operator_prompts = {}
    for operator, census in censuses.items():
        pool = without(census[census["uniform"]], excluded)["prompt"].to_numpy()
        if not len(pool):
            raise UserError(
                f"mean cache: every census pair of {operator} is in a dataset; raise census_pairs or widen "
                "the operand range"
            )
        order = generator(seed, "mean-cache", operator).permutation(len(pool))
        operator_prompts[operator] = pool[order[: -(-prompts // len(censuses))]].tolist()
    return operator_prompts


@torch.no_grad()
def activation_sums(
    model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[str], batch: int = 128
) -> dict[str, Tensor]:
    """Sums over prompts of one template, by position from the last token, in double precision.

    A position that not all prompts have is summed over those that have it.

    Returns:
        Sums over every other prompt and over the rest, in a dimension of 2: `count` (P, 2), and for each layer L
        `neurons.L` (P, 2, m), `heads.L` (P, 2, H, D) and `squares.L` (1, 2, m), the squares of the last token's
        activations.
    """
    sums: dict[str, Tensor] = {}
    all_tokens = torch.from_numpy(tokenizer.encode_batch(prompts)).to(model.device)
    for _, tokens in by_length(all_tokens, batch):
        for name, part in _sums_of_batch(model, tokens, int(tokenizer.bos is not None)).items():
            sums[name] = _joined([sums[name], part]) if name in sums else part
    return sums


def _sums_of_batch(model: Decoder, tokens: Tensor, skip: int) -> dict[str, Tensor]:
    """`activation_sums` of prompts (B, T) of one length without their first `skip` tokens."""
    sums: dict[str, Tensor] = {}
    counts = (len(tokens) + 1) // 2, len(tokens) // 2

    def halves(values: Tensor) -> Tensor:
        # A beginning that all prompts share runs as one sequence, which counts for each of them.
        alone = len(values) < len(tokens)
        rows = values.double()
        return torch.stack([rows[0] * count if alone else rows[i::2].sum(0) for i, count in enumerate(counts)], 1)

    def add(name: str, values: Tensor) -> None:
        part = halves(values)
        sums[name] = torch.cat([sums[name], part]) if name in sums else part

    def on_neurons(layer: int, post: Tensor) -> Tensor:
        add(f"neurons.{layer}", post)
        squares[f"squares.{layer}"] = halves(post[:, -1:].double().square())
        return post

    def on_heads(layer: int, z: Tensor) -> Tensor:
        add(f"heads.{layer}", z)
        return z

    squares: dict[str, Tensor] = {}
    shared = shared_beginning(tokens)
    beginning = tokens[:1, :shared]
    _, past = run_beginning(model, beginning, on_neurons=on_neurons, on_heads=on_heads) if shared else ([], [])
    x, each = embed(model, tokens)[:, shared:], for_each(past, len(tokens))
    run_layers(model, x, on_neurons=on_neurons, on_heads=on_heads, past=each)
    positions = tokens.shape[1] - skip
    count = torch.tensor([counts], dtype=torch.float64, device=model.device).expand(positions, -1)
    return {"count": count, **{name: part[skip:].flip(0) for name, part in sums.items()}, **squares}


def _joined(sums: Sequence[Tensor]) -> Tensor:
    """The sum of tensors (P, ...) of unequal P, which begin at the same position, the last token."""
    total = torch.zeros_like(max(sums, key=len))
    for part in sums:
        total[: len(part)] += part
    return total


def means_of(sums: Sequence[dict[str, Tensor]], layers: int) -> MeanCache:
    """The mean cache of the prompts of one or several templates, from `activation_sums` of each.

    A position that not all prompts have is averaged over those that have it.
    """
    total = {name: _joined([part[name] for part in sums]) for name in sums[0]}
    of_half = [{name: values[:, i] for name, values in total.items()} for i in (0, 1)]
    whole = _means({name: values.sum(1) for name, values in total.items()}, layers)
    if all(half["count"][0] for half in of_half):
        whole.halves = {name: _means(half, layers) for name, half in zip(MEANS_HALVES, of_half, strict=True)}
    return whole


def _means(total: dict[str, Tensor], layers: int) -> MeanCache:
    """Means from sums over some prompts, at the positions that at least one of them has."""
    positions = int((total["count"] > 0).sum())

    def mean(name: str) -> Tensor:
        values = total[name][:positions]
        counts = total["count"][: len(values)].view(-1, *[1] * (values.dim() - 1))
        return values / counts

    def of_layers(kind: str) -> list[Tensor]:
        return [mean(f"{kind}.{layer}") for layer in range(layers)]

    def single(values: list[Tensor]) -> list[Tensor]:
        return [check_finite(value.float(), "the mean activations") for value in values]

    neurons, squares = of_layers("neurons"), of_layers("squares")
    # In double precision, because a small variance around a large mean would be lost to rounding.
    variance = [(square[0] - means[0] ** 2).clamp_min(0) for square, means in zip(squares, neurons, strict=True)]
    return MeanCache(
        single(neurons), single(of_layers("heads")), single(variance), total["count"][:positions].float()
    )


def compute(model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[Sequence[str]]) -> MeanCache:
    """One mean cache of several groups of prompts; each group has one template."""
    return means_of([activation_sums(model, tokenizer, group) for group in prompts], model.config.n_layers)


def last_token_means(model: Decoder, tokens: Tensor, first: int) -> MeanCache:
    """Means over prompts (P, T) of the neurons from layer `first` on, for interventions at the last token only.

    There are no variances.
    """
    post = last_token_neurons(model, tokens, first)  # (late layers, P, m)
    earlier = [post.new_empty(0, model.config.d_mlp)] * first

    def over(part: Tensor) -> MeanCache:
        return MeanCache([*earlier, *part.mean(1)[:, None]], [], [], part.new_full((1,), part.shape[1]))

    whole = over(post)
    if len(tokens) > 1:
        whole.halves = {name: over(post[:, i::2]) for i, name in enumerate(MEANS_HALVES)}
    return whole
