"""The shared circuit: the neurons that are among the best k in every format (paper, section 4.2)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.experiment.membership import Effects, common_layers
from form_invariance.experiment.neuron_sets import HALVES
from form_invariance.stages.circuit.table import CIRCUIT, CIRCUIT_HALVES
from form_invariance.tables.files import read_table


def circuit_table(cells: Mapping[str, Effects], ks: Sequence[int]) -> pd.DataFrame:
    """The shared circuit of every k: the neurons in the top-k of all formats, layer by layer."""
    tables = []
    for layer in common_layers(cells, ks):
        worst = np.max([cell.ranks(layer) for cell in cells.values()], axis=0)
        tables += [pd.DataFrame({"k": k, "layer": layer, "neuron": np.flatnonzero(worst < k)}) for k in ks]
    return pd.concat(tables).astype("int64").sort_values(["k", "layer", "neuron"], ignore_index=True)


def halves_table(cells: Mapping[str, Effects], ks: Sequence[int]) -> pd.DataFrame:
    """The shared circuits from rankings by the first half of each format's train prompts, and by the second."""
    halves = zip(*(cell.halves() for cell in cells.values()), strict=True)
    tables = [
        circuit_table(dict(zip(cells, half, strict=True)), ks).assign(half=number)
        for number, half in enumerate(halves, 1)
    ]
    return pd.concat(tables, ignore_index=True)


def circuit_members(circuit: pd.DataFrame, k: int, late: range, width: int) -> np.ndarray:
    """The shared circuit at k as a mask, bool, (late layers, width), from the circuit table."""
    members = np.zeros((len(late), width), dtype=bool)
    rows = circuit[circuit["k"] == k]
    members[rows["layer"].to_numpy() - late.start, rows["neuron"].to_numpy()] = True
    return members


def read_circuits(path: Path, ks: Sequence[int], late: range, width: int) -> dict[int, np.ndarray]:
    """The shared circuit at every k as a mask, bool, (late layers, width), from the circuit table's file."""
    circuit = read_table(path, CIRCUIT)
    return {k: circuit_members(circuit, k, late, width) for k in ks}


def read_halves(path: Path, ks: Sequence[int], late: range, width: int) -> dict[str, dict[int, np.ndarray]]:
    """As `read_circuits`, the shared circuits by either half of the train prompts; keys are from `HALVES`."""
    table = read_table(path, CIRCUIT_HALVES)
    by_half = {name: table[table["half"] == number] for number, name in enumerate(HALVES, 1)}
    return {name: {k: circuit_members(rows, k, late, width) for k in ks} for name, rows in by_half.items()}
