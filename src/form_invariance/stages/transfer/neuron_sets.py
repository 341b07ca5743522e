"""The neurons that a transfer moves: the circuit, its bands of layers, its controls, all late neurons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.circuit.controls import as_many_best, draw_controls
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.compute import Shares
from form_invariance.stages.transfer.names import ALL_LATE, BANDS, CIRCUIT, DRAWN, NONE, RESIDUAL

Drawn = list[tuple[int, int, np.ndarray]]
"""k, draw, and the neurons as a mask, bool, (late layers, m)."""


@dataclass(frozen=True)
class Measured:
    """What is known of the late neurons in one format; arrays are (late layers, m).

    Attributes:
        variance: of the last token's activations.
        effect: mean indirect effect, NaN where a neuron was not patched.
        rank: by this effect within the layer, 1 = best, NaN likewise.
        onset: the first layer whose output tells a probe the answer; None where there is none.
    """

    variance: np.ndarray
    effect: np.ndarray
    rank: np.ndarray
    onset: int | None


@dataclass(frozen=True)
class Choices:
    """Circuit sizes, and how often each control is drawn."""

    operator: str  # names the draws
    ks: Sequence[int]
    random_seeds: int
    matched_seeds: int
    seed: int


def measure(run: Run, ranking: pd.DataFrame, variance: np.ndarray, onset: int | None) -> Measured:
    """What a format's ranking table, mean cache (variance, (late layers, m)) and probe say of the late neurons."""
    return Measured(variance, run.by_neuron(ranking, "ie_mean"), run.by_neuron(ranking, "rank"), onset)


def best_not_shared(circuit: np.ndarray, rank: np.ndarray) -> np.ndarray | None:
    """The best neurons by rank outside the circuit, as many in each layer as it has; all (late layers, m).

    None where a layer has too few ranked neurons outside the circuit.
    """
    return as_many_best(circuit, np.where(circuit, np.nan, rank))


def split_at_onset(circuit: np.ndarray, onset: int | None, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The circuit below the onset and from it on; without an onset neither has a neuron."""
    layers = first + np.arange(len(circuit))[:, None]
    if onset is None:
        return np.zeros_like(circuit), np.zeros_like(circuit)
    return circuit & (layers < onset), circuit & (layers >= onset)


def drawn_controls(circuits: Mapping[int, np.ndarray], target: Measured, choices: Choices) -> dict[str, Drawn]:
    """Controls of every k outside the circuit: uniform, and matched by variance and by effect in the target.

    A control is absent where too few neurons lie outside the circuit.
    """
    matched = {"variance": target.variance, "effect": target.effect}
    found: dict[str, Drawn] = {kind: [] for kind in DRAWN}
    for kind, own in DRAWN.items():
        values = matched[own.matched_by] if own.matched_by else None
        draws = choices.random_seeds if values is None else choices.matched_seeds
        for k, circuit in circuits.items():
            for draw in range(draws):
                names = ("transfer", choices.operator, kind, k, draw)
                control = draw_controls(circuit, values, choices.seed, *names)
                if control is not None:
                    found[kind].append((k, draw, control))
    return found


def neuron_sets(
    run: Run, circuit: pd.DataFrame, formats: Mapping[str, Measured], choices: Choices
) -> dict[tuple[str, str], dict[str, Shares]]:
    """What moves in every direction (donor, target), by the names that conditions use.

    Args:
        circuit: circuit table.
        formats: of each format.
    """
    circuits = {k: circuit_members(circuit, k, run.late, run.width) for k in choices.ks}
    shape = (len(run.late), run.width)
    whole: dict[str, Drawn] = {
        CIRCUIT: [(k, NONE, members) for k, members in circuits.items()],
        ALL_LATE: [(NONE, NONE, np.ones(shape, dtype=bool))],
        RESIDUAL: [(NONE, NONE, np.zeros(shape, dtype=bool))],
    }
    found = {}
    for target, measured in formats.items():
        sets = {**whole, **drawn_controls(circuits, measured, choices), **{band: [] for band in BANDS}}
        for k, members in circuits.items():
            for band, part in zip(BANDS, split_at_onset(members, measured.onset, run.first), strict=True):
                sets[band].append((k, NONE, part))
        shares = {name: _shares(run, drawn) for name, drawn in sets.items()}
        for donor in formats.keys() - {target}:
            best = {k: best_not_shared(members, formats[donor].rank) for k, members in circuits.items()}
            others = [(k, NONE, members) for k, members in best.items() if members is not None]
            found[donor, target] = {**shares, "not_shared": _shares(run, others)}
    return found


def _shares(run: Run, drawn: Drawn) -> Shares:
    """Sets of neurons that move as a whole."""
    settings = pd.DataFrame([(k, seed) for k, seed, _ in drawn], columns=["k", "seed"], dtype="int64")
    moved = np.stack([mask for _, _, mask in drawn]) if drawn else np.zeros((0, len(run.late), run.width), bool)
    return Shares(settings, torch.from_numpy(moved).to(run.model.device))
