"""Sets of neurons for an intervention, and the random ones that a circuit is compared with (method, section 7)."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, KINDS
from form_invariance.randomness import generator

if TYPE_CHECKING:
    from form_invariance.experiment.means import MeanCache

NEAREST = 10
"""A matched control is drawn among this many nearest neurons outside the circuit."""
NOT_DRAWN = -1
"""The value of `seed` in rows of sets that are not drawn."""
NeuronValues = TypeVar("NeuronValues")
"""Values of all late neurons: an array (late layers, m), or arrays (m,) by layer."""


@dataclass(frozen=True)
class NeuronSet:
    """Neurons that an intervention replaces or keeps.

    Attributes:
        label: the columns that identify it in tables, such as neurons (its kind), k and seed (its draw).
        members: (late layers, m), bool.
    """

    label: Mapping[str, Any]
    members: np.ndarray

    def __len__(self) -> int:
        """The number of its neurons."""
        return int(self.members.sum())


@dataclass(frozen=True)
class Draws:
    """How often each control is drawn: `random` times uniformly, `matched` times if a value matches it."""

    random: int
    matched: int
    seed: int


def masks_of(sets: Sequence[NeuronSet]) -> np.ndarray:
    """The members of sets, (sets, late layers, m)."""
    return np.stack([neuron_set.members for neuron_set in sets])


def labels_of(sets: Sequence[NeuronSet]) -> pd.DataFrame:
    """The labels of sets, a row each."""
    return pd.DataFrame([neuron_set.label for neuron_set in sets])


def circuit_set(members: np.ndarray, k: int, half: str = "") -> NeuronSet:
    """The circuit at one k, or as one half of the train prompts ranks it; members bool, (late layers, m)."""
    return NeuronSet({"neurons": half + CIRCUIT, "k": k, "seed": NOT_DRAWN}, members)


def with_half_means(
    sets: Iterable[NeuronSet], means: "MeanCache"
) -> Iterator[tuple["MeanCache", list[NeuronSet]]]:
    """For each half of the prompts of the means: the means over it, and the ranked sets, named after the half."""
    ranked = [neuron_set for neuron_set in sets if neuron_set.label["neurons"].startswith((CIRCUIT, BEST_IN))]
    for half, cache in means.halves.items() if ranked else ():
        renamed = [
            replace(neuron_set, label={**neuron_set.label, "neurons": half + neuron_set.label["neurons"]})
            for neuron_set in ranked
        ]
        yield cache, renamed


def matching_values(variance: NeuronValues, effects: NeuronValues) -> dict[str, NeuronValues]:
    """The values that controls are matched by, under the names of `Kind.matched_by`; NaN = not available.

    Args:
        variance: the variance of each neuron at the last token.
        effects: the mean indirect effect of each neuron.
    """
    return {"variance": variance, "effect": effects}


def controls(
    circuit: np.ndarray,
    k: int,
    kinds: Iterable[str],
    values: Mapping[str, np.ndarray],
    draws: Draws,
    *names: object,
) -> Iterator[NeuronSet]:
    """Controls of a circuit: as many neurons in each layer, all outside the circuit.

    A control is absent if a layer has too few neurons outside the circuit.

    Args:
        circuit: bool, (late layers, m).
        kinds: keys of `neuron_sets.KINDS`.
        values: from `matching_values`.
        names: the purpose of the draws (`generator`).
    """
    for kind in kinds:
        matched = values[KINDS[kind].matched_by] if KINDS[kind].matched_by else None
        for draw in range(draws.random if matched is None else draws.matched):
            control = draw_controls(circuit, matched, draws.seed, *names, kind, k, draw)
            if control is not None:
                yield NeuronSet({"neurons": kind, "k": k, "seed": draw}, control)


def draw_control(circuit: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """A control of one layer: as many neurons as the circuit has there, outside it, with similar values.

    Args:
        circuit: True where a neuron is in the circuit, bool, (m,).
        values: the values that match the control, (m,), NaN = not available.

    Returns:
        The control, bool, (m,), or None if too few neurons lie outside the circuit.
    """
    outside, circuit_neurons = np.flatnonzero(~circuit & np.isfinite(values)), np.flatnonzero(circuit)
    if len(outside) < len(circuit_neurons):
        return None
    control = np.zeros_like(circuit)
    order = outside[np.argsort(values[outside], kind="stable")]
    free, keys = order.tolist(), values[order].tolist()
    for neuron in rng.permutation(circuit_neurons):
        low = max(0, min(bisect_left(keys, values[neuron]) - NEAREST // 2, len(free) - NEAREST))
        position = int(rng.integers(low, min(low + NEAREST, len(free))))
        keys.pop(position)
        control[free.pop(position)] = True
    return control


def draw_controls(circuit: np.ndarray, values: np.ndarray | None, seed: int, *names: object) -> np.ndarray | None:
    """A control in every late layer, matched by values (late layers, m), or uniform if these are None.

    Circuit and result are bool, (late layers, m). None if a layer has too few neurons outside the circuit.
    """
    if values is None:
        return draw_among(~circuit, circuit, seed, *names)
    drawn = [
        draw_control(members, of_layer, generator(seed, "control", layer, *names))
        for layer, (members, of_layer) in enumerate(zip(circuit, values, strict=True))
    ]
    present = [control for control in drawn if control is not None]
    return np.stack(present) if len(present) == len(drawn) else None


def draw_among(allowed: np.ndarray, counted: np.ndarray, seed: int, *names: object) -> np.ndarray | None:
    """Random neurons of the mask `allowed`, as many in each layer as `counted` has; all bool, (late layers, m).

    None if a layer has too few.
    """
    if (allowed.sum(1) < counted.sum(1)).any():
        return None
    drawn = np.zeros_like(allowed)
    for layer, number in enumerate(counted.sum(1)):
        rng = generator(seed, "control", layer, *names)
        drawn[layer, rng.choice(np.flatnonzero(allowed[layer]), size=number, replace=False)] = True
    return drawn
