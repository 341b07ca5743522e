"""Files of a cell's activation maps, and of the logits that multiply them.

One file is for readers: the shared neurons' maps with 8 bits a value, and the exact activations of all labelled
neurons at a sample of pairs, the same in every format. The other has the exact maps of all labelled neurons.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.heuristics.pairs import Grid

KIND, EXACT = "activation_maps", "labelled_maps"
LEVELS = 255
SAMPLED = 1000
"""Largest number of pairs in the sample."""


@dataclass(frozen=True)
class ActivationMaps:
    """K maps of some neurons over a grid of operand pairs.

    Attributes:
        a, b, answer: the pairs, (N,) int64.
        neurons: columns layer, neuron; a row for each map.
        maps: activations at the last token, (neurons, N) float32, exact to 1/510 of the neuron's range.
        logits: what one unit of each neuron adds to the logit of each pair's answer, (neurons, N) float32.
    """

    a: np.ndarray
    b: np.ndarray
    answer: np.ndarray
    neurons: pd.DataFrame
    maps: np.ndarray
    logits: np.ndarray


def to_arrays(maps: np.ndarray, logits: np.ndarray, grid: Grid, neurons: pd.DataFrame) -> dict[str, np.ndarray]:
    """Named arrays for a file; `from_arrays` reads them back.

    Args:
        maps: K maps, (neurons, N).
        logits: logit of each answer by neuron, (neurons, answers).
        neurons: columns layer, neuron; a row for each map.
    """
    low, high = maps.min(1), maps.max(1)
    step = np.where(high > low, (high - low) / LEVELS, 1.0)
    return {
        "a": grid.a,
        "b": grid.b,
        "answer": grid.answer,
        "neurons": neurons[["layer", "neuron"]].to_numpy(dtype=np.int64),
        "low": low.astype(np.float32),
        "step": step.astype(np.float32),
        "codes": np.rint((maps - low[:, None]) / step[:, None]).astype(np.uint8),
        "answers": np.unique(grid.answer),
        "logits": logits.astype(np.float32),
    }


def from_arrays(arrays: dict[str, np.ndarray]) -> ActivationMaps:
    """The maps of a file's arrays."""
    maps = arrays["low"][:, None] + arrays["step"][:, None] * arrays["codes"]
    of_pair = np.searchsorted(arrays["answers"], arrays["answer"])
    return ActivationMaps(
        a=arrays["a"],
        b=arrays["b"],
        answer=arrays["answer"],
        neurons=pd.DataFrame(arrays["neurons"], columns=["layer", "neuron"]),
        maps=maps.astype(np.float32),
        logits=arrays["logits"][:, of_pair],
    )


def sample(maps: np.ndarray, grid: Grid, seed: int, operator: str) -> dict[str, np.ndarray]:
    """Named arrays of the sample, for the same file.

    Args:
        maps: K maps of all labelled neurons, (neurons, N), in the order of `table.ordered`.
        operator: name of the operator, for the seeded choice.

    Returns:
        sampled_pairs: positions in the grid, (P,), ascending; sampled: activations there, (neurons, P) float32.
    """
    total = len(grid.a)
    drawn = generator(seed, "sampled-pairs", operator).choice(total, min(SAMPLED, total), replace=False)
    pairs = np.sort(drawn)
    return {"sampled_pairs": pairs, "sampled": maps[:, pairs]}
