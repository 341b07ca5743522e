"""The neurons whose activations are transferred: the circuit, its controls, all late neurons."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.experiment.controls import (
    Draws,
    NeuronSet,
    circuit_set,
    controls,
    matching_values,
)
from form_invariance.experiment.neuron_sets import ALL_LATE, CIRCUIT, CONTROLS, NOT_SHARED
from form_invariance.experiment.run import Run
from form_invariance.stages.transfer.names import NONE, RESIDUAL

Sets = dict[str, list[NeuronSet]]
"""Sets of neurons by the name that conditions use."""


@dataclass(frozen=True)
class FormatValues:
    """Measured values of the late neurons in one format, (late layers, m) each.

    Attributes:
        variance: variance of the last-token activation.
        effect: mean indirect effect; NaN if a neuron was not patched.
        rank: rank by this effect within the layer, 1 = best; NaN if a neuron was not patched.
    """

    variance: np.ndarray
    effect: np.ndarray
    rank: np.ndarray


def measure(run: Run, ranking: pd.DataFrame, variance: np.ndarray) -> FormatValues:
    """The values of the late neurons from a format's ranking table and `variance`, (late layers, m)."""
    return FormatValues(variance, run.by_neuron(ranking, "ie_mean"), run.by_neuron(ranking, "rank"))


def best_not_shared(circuit: np.ndarray, rank: np.ndarray) -> np.ndarray | None:
    """The best neurons by rank outside the circuit, as many in each layer as it has; all arrays (late layers, m).

    None if a layer has too few ranked neurons outside the circuit.
    """
    outside, members = np.where(circuit, np.nan, rank), np.zeros_like(circuit)
    for layer, size in enumerate(circuit.sum(1)):
        best = np.argsort(outside[layer], kind="stable")[:size]
        if np.isnan(outside[layer, best]).any():
            return None
        members[layer, best] = True
    return members


def neuron_sets(
    run: Run,
    circuits: Mapping[int, np.ndarray],
    halves: Mapping[str, Mapping[int, np.ndarray]],
    formats: Mapping[str, FormatValues],
    operator: str,
    draws: Draws,
) -> dict[tuple[str, str], Sets]:
    """The sets of neurons of every direction (donor, target).

    Controls are matched by values measured in the target's format. A control is absent if too few neurons lie
    outside the circuit.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        halves: the same by the name of a half of the train prompts.
        formats: values measured in each format.
        operator: name of the operator, for the draws.
    """
    shape = (len(run.late), run.width)
    whole: Sets = {
        **{
            half + CIRCUIT: [circuit_set(members, k, half) for k, members in by_half.items()]
            for half, by_half in {"": circuits, **halves}.items()
        },
        ALL_LATE: [circuit_set(np.ones(shape, dtype=bool), NONE)],
        RESIDUAL: [circuit_set(np.zeros(shape, dtype=bool), NONE)],
    }
    by_direction = {}
    for target, measured in formats.items():
        sets = {**whole, **{name: [] for name in CONTROLS}}
        values = matching_values(measured.variance, measured.effect)
        for k, members in circuits.items():
            for control in controls(members, k, CONTROLS, values, draws, "transfer", operator):
                sets[control.label["neurons"]].append(control)
        for donor in formats.keys() - {target}:
            best = {k: best_not_shared(members, formats[donor].rank) for k, members in circuits.items()}
            others = [circuit_set(members, k) for k, members in best.items() if members is not None]
            by_direction[donor, target] = {**sets, NOT_SHARED: others}
    return by_direction
