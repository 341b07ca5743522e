"""Activation maps of a cell's neurons as a file: 8 bits a value, and the logits that they multiply.

The file also has a sample: exact activations of all labelled neurons at some pairs, the same in every format.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.heuristics.pairs import Grid

KIND = "activation_maps"
LEVELS = 255
SAMPLED = 1000
"""Pairs of the sample, at most."""


@dataclass(frozen=True)
class ActivationMaps:
    """K maps of some neurons over a grid of operand pairs.

    Attributes:
        a, b, answer: the pairs, (N,) int64.
        neurons: columns layer, neuron; one row a map.
        maps: activations at the last token, (neurons, N) float32, exact to half a step of 255 between the
            neuron's smallest and largest.
        logits: what one unit of each neuron adds to the logit of each pair's answer, (neurons, N) float32.
    """

    a: np.ndarray
    b: np.ndarray
    answer: np.ndarray
    neurons: pd.DataFrame
    maps: np.ndarray
    logits: np.ndarray


def to_arrays(
    maps: np.ndarray, logits: np.ndarray, grid: Grid, neurons: Mapping[int, np.ndarray]
) -> dict[str, np.ndarray]:
    """Named arrays for a file; `from_arrays` reads them back.

    Args:
        maps: K maps, (neurons, N).
        logits: logit of the pair's answer by neuron, (neurons, N).
        neurons: the neurons of each layer, in the order of the maps' rows.
    """
    low, high = maps.min(1), maps.max(1)
    step = np.where(high > low, (high - low) / LEVELS, 1.0)
    answers, place = np.unique(grid.answer, return_index=True)
    pairs = [(layer, neuron) for layer, numbers in neurons.items() for neuron in numbers.tolist()]
    return {
        "a": grid.a,
        "b": grid.b,
        "answer": grid.answer,
        "neurons": np.array(pairs, dtype=np.int64).reshape(len(pairs), 2),
        "low": low.astype(np.float32),
        "step": step.astype(np.float32),
        "codes": np.rint((maps - low[:, None]) / step[:, None]).astype(np.uint8),
        "answers": answers,
        "logits": logits[:, place].astype(np.float32),
    }


def from_arrays(arrays: dict[str, np.ndarray]) -> ActivationMaps:
    """The maps of a file's arrays."""
    maps = arrays["low"][:, None] + arrays["step"][:, None] * arrays["codes"]
    place = np.searchsorted(arrays["answers"], arrays["answer"])
    return ActivationMaps(
        a=arrays["a"],
        b=arrays["b"],
        answer=arrays["answer"],
        neurons=pd.DataFrame(arrays["neurons"], columns=["layer", "neuron"]),
        maps=maps.astype(np.float32),
        logits=arrays["logits"][:, place],
    )


def sample(maps: np.ndarray, grid: Grid, seed: int, operator: str) -> dict[str, np.ndarray]:
    """Named arrays of the sample, for the same file.

    Args:
        maps: K maps of all labelled neurons by kind, layer, neuron, (neurons, N).
        operator: its name, for the seeded choice.

    Returns:
        sampled_pairs: places in the grid, (P,), ascending; sampled: activations there, (neurons, P) float32.
    """
    total = len(grid.a)
    drawn = generator(seed, "sampled-pairs", operator).choice(total, min(SAMPLED, total), replace=False)
    pairs = np.sort(drawn)
    return {"sampled_pairs": pairs, "sampled": maps[:, pairs]}
