"""The candidates: the neurons that attribution selects for exact patching."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.stages.attribution.table import ATTRIBUTION
from form_invariance.tables.files import read_table


def candidates_of(attribution: pd.DataFrame, device: torch.device) -> dict[int, Tensor]:
    """The candidates of each layer of an attribution table, (C,) each."""
    by_layer = attribution[attribution["candidate"]].groupby("layer")["neuron"]
    return {int(str(layer)): torch.tensor(neurons.to_numpy(), device=device) for layer, neurons in by_layer}


def read_candidates(path: Path, layers: Iterable[int], device: torch.device) -> dict[int, Tensor]:
    """The candidates of some layers, (C,) each, from an attribution table's file.

    Raises:
        UserError: the table has no candidates in a layer.
    """
    candidates = candidates_of(read_table(path, ATTRIBUTION), device)
    for layer in layers:
        if layer not in candidates:
            raise UserError(f"{path} has no candidates in layer {layer}; it was made with other late layers")
    return {layer: candidates[layer] for layer in layers}
