"""The sets of neurons of one cell that are kept or knocked out: the circuits and their controls."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from form_invariance.stages.circuit.controls import circuit_share, draw_controls, draw_from_all, match_distance
from form_invariance.stages.neuron_sets import CIRCUIT, CONTROLS


@dataclass(frozen=True)
class Choices:
    """What a run measures of a cell: circuit sizes, controls and intervals."""

    operator: str  # it has controls of its own, which its formats share
    ks: Sequence[int]
    random_seeds: int  # draws of each uniform control: outside the circuit, and from all neurons
    matched_seeds: int  # draws of each of the controls matched by variance and by effect
    resamples: int
    seed: int
    center: bool


@dataclass(frozen=True)
class NeuronSet:
    """A set of neurons to keep or knock out: the circuit at one k, or a control of it."""

    neurons: str
    k: int
    seed: int
    members: np.ndarray  # bool, (late layers, m)
    match_distance: float = float("nan")
    circuit_share: float = float("nan")


def neuron_sets(
    circuits: Mapping[int, np.ndarray], variance: np.ndarray, effects: np.ndarray, choices: Choices
) -> list[NeuronSet]:
    """The circuit of every k and its controls, all with as many neurons in the same layers.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        variance: variance of the last token's activations, (late layers, m).
        effects: mean indirect effects, (late layers, m).

    Returns:
        In order. A control outside the circuit is absent where too few neurons lie there; a circuit without
        neurons has no controls.
    """
    matched = {"variance": variance, "effect": effects}
    sets = []
    for k, members in circuits.items():
        sets.append(NeuronSet(CIRCUIT, k, -1, members))
        if members.any():
            sets += _controls(members, k, matched, choices)
    return sets


def _controls(
    members: np.ndarray, k: int, matched: Mapping[str, np.ndarray], choices: Choices
) -> Iterator[NeuronSet]:
    """The controls of one circuit; `matched` are the values that a kind may be matched by."""
    for kind, own in CONTROLS.items():
        values = matched[own.matched_by] if own.matched_by else None
        for draw in range(choices.random_seeds if values is None else choices.matched_seeds):
            names = (choices.seed, choices.operator, kind, k, draw)
            control = draw_controls(members, values, *names) if own.outside else draw_from_all(members, *names)
            if control is not None:
                distance = float("nan") if values is None else match_distance(members, control, values)
                yield NeuronSet(kind, k, draw, control, distance, circuit_share(members, control))


def also_by_template(sets: Sequence[NeuronSet]) -> list[NeuronSet]:
    """The sets that are tried with the template's own means too: every circuit, and one random control of it."""
    return [one for one in sets if one.neurons == CIRCUIT or (one.neurons == "random" and one.seed == 0)]
