"""The sample that both engines run: a few prompts of some cells, and neurons of every late layer.

Single-neuron patches over whole sequences take most of the time, so the cells divide the layers among them, and
only the first prompt of a cell is patched.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.means import MeanCache
from form_invariance.model.batches import by_length
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.dataset.prompts import TrainPrompts
from form_invariance.tables.keys import CellKey

CheckedValues = dict[tuple[str, int], Tensor]
"""An engine's values by check and layer, float64, on the CPU."""

NO_LAYER = -1
"""The layer of a check that is not made layer by layer."""


@dataclass(frozen=True)
class CheckedPrompts:
    """Prompts of one cell, and the neurons to patch, keep and transfer."""

    tokens: Tensor  # (B, T); single neurons are patched in the first
    answers: Tensor  # (B, 2): token ids of the clean and of the corrupt answer
    partners: list[Tensor]  # the corrupt prompts, (1, T') each: they may differ in length
    donors: Tensor  # (B, T''): prompts of the next cell
    layers: range  # the late layers
    neurons: dict[int, Tensor]  # by layer, for some late layers, (C,): each neuron is patched alone
    neuron_set: Tensor  # bool, (late layers, m): the neurons that are kept, or transferred
    means: MeanCache
    bos: bool


def choose_neurons(attribution: pd.DataFrame, device: torch.device) -> tuple[dict[int, Tensor], Tensor]:
    """Neurons to patch alone, and a set to keep and to transfer.

    Args:
        attribution: the attribution table of a cell.

    Returns:
        By late layer, the first and the last neuron by attribution, (C,); and the better half of every layer,
        bool, (late layers, m).
    """
    layers = attribution["layer"].nunique()
    ordered = attribution.sort_values(["layer", "rank"])["neuron"].to_numpy().reshape(layers, -1)
    width = ordered.shape[1]
    places = sorted({0, width - 1})
    first = int(attribution["layer"].min())
    neurons = {first + late: torch.tensor(row[places], device=device) for late, row in enumerate(ordered)}
    half = torch.tensor(ordered[:, : width // 2], device=device)
    neuron_set = torch.zeros(layers, width, dtype=torch.bool, device=device).scatter_(1, half, value=True)
    return neurons, neuron_set


def commonest_length(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The prompts of the commonest length: their token ids without padding (n, t), and their rows (n,)."""
    rows, group_tokens = max(by_length(tokens, len(tokens)), key=lambda group: len(group[0]))
    return group_tokens, rows


def build_samples(
    trains: Mapping[CellKey, TrainPrompts],
    attributions: Mapping[CellKey, pd.DataFrame],
    means: Mapping[str, MeanCache],
    tokenizer: PromptTokenizer,
    prompts: int,
) -> dict[CellKey, CheckedPrompts]:
    """The sample of every cell: train prompts of one length, with those of the next cell as donors."""
    cells, samples = list(trains), {}
    for number, (name, operator) in enumerate(cells):
        train = trains[name, operator]
        tokens, places = commonest_length(train.tokens)
        donors, _ = commonest_length(trains[cells[(number + 1) % len(cells)]].tokens)
        size = min(prompts, len(tokens), len(donors))
        rows = places[:size]
        device = train.tokens.device
        neurons, neuron_set = choose_neurons(attributions[name, operator], device)
        layers = range(min(neurons), max(neurons) + 1)
        here = layers[number :: len(cells)]
        texts = [train.partners[0][row] for row in rows.tolist()]
        samples[name, operator] = CheckedPrompts(
            tokens=tokens[:size],
            answers=train.answers[0, rows],
            partners=[torch.from_numpy(tokenizer.encode_batch([text])).to(device) for text in texts],
            # Rolled, so that donors and targets differ in a run of one cell.
            donors=donors[:size].roll(1, 0),
            layers=layers,
            neurons={layer: neurons[layer] for layer in here},
            neuron_set=neuron_set,
            means=means[name],
            bos=tokenizer.bos is not None,
        )
    return samples
