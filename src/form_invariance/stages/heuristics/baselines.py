"""The neurons that are labelled: the shared neurons, and the baselines of their labels.

Baselines are the same in every format: neurons that are not shared, matched by variance or by effect; random
directions; and smooth noise, which is no neuron. Each kind has as many members in a layer as a sample of at most
`MOST_BASELINES` shared neurons has.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.experiment.controls import draw_control, matching_values
from form_invariance.randomness import generator
from form_invariance.stages.circuit.table import by_layer
from form_invariance.stages.heuristics.names import DIRECTION, MATCHED_BASELINES, MOST_BASELINES, NOISE, SHARED
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.smoothness import random_maps

MIXED_NEURONS = 32
"""Each random direction mixes this many neurons of its layer."""

Layers = Mapping[int, np.ndarray]
"""Indices of neurons, or values of all neurons (m,), by layer."""


def labelled_neurons(
    shared: pd.DataFrame, variance: Layers, effects: Layers, seed: int, operator: str
) -> pd.DataFrame:
    """The neurons of every population, columns neurons, layer, neuron.

    A matched population is left out if any layer has too few neurons that are not shared.

    Args:
        shared: columns layer, neuron.
        variance, effects: mean over formats for every neuron, (m,) by layer; NaN = not available.
    """
    tables = [shared[["layer", "neuron"]].assign(neurons=SHARED)]
    layers = by_layer(shared)
    sampled = generator(seed, "sampled-baselines", operator).permutation(len(shared))[:MOST_BASELINES]
    counts = {layer: len(numbers) for layer, numbers in by_layer(shared.iloc[sampled]).items()}
    by_value = matching_values(variance, effects)
    for kind, matched_by in MATCHED_BASELINES.items():
        values = by_value[matched_by]
        numbers = {}
        for layer, members in layers.items():
            mask = np.isin(np.arange(len(values[layer])), members)
            rng = generator(seed, "labels", kind, operator, layer)
            control = draw_control(mask, values[layer], rng)
            if control is None:
                break
            drawn = rng.choice(np.flatnonzero(control), size=counts.get(layer, 0), replace=False)
            numbers[layer] = np.sort(drawn)
        else:
            tables.append(_population(kind, numbers))
    numbers = {layer: np.arange(count) for layer, count in counts.items()}
    tables += [_population(kind, numbers) for kind in (DIRECTION, NOISE)]
    return pd.concat(tables, ignore_index=True)[["neurons", "layer", "neuron"]]


def _population(kind: str, numbers: Layers) -> pd.DataFrame:
    rows = [(layer, int(neuron)) for layer, neurons in numbers.items() for neuron in neurons]
    return pd.DataFrame(rows, columns=["layer", "neuron"]).astype("int64").assign(neurons=kind)


def mean_effects(rankings: Mapping[str, pd.DataFrame], widths: Mapping[int, int]) -> dict[int, np.ndarray]:
    """Mean indirect effect over formats, (m,) by layer; NaN if a neuron is not a candidate in all of them."""
    result = {}
    for layer, width in widths.items():
        values = np.full((len(rankings), width), np.nan)
        for row, table in zip(values, rankings.values(), strict=True):
            of_layer = table[table["layer"] == layer]
            row[of_layer["neuron"].to_numpy()] = of_layer["ie_mean"]
        result[layer] = values.mean(0)
    return result


def mixed_neurons(layers: Sequence[int], width: int, seed: int, operator: str) -> dict[int, np.ndarray]:
    """The neurons that each layer's random directions mix; `width` is the number of neurons of a layer."""
    count = min(MIXED_NEURONS, width)
    return {
        layer: np.sort(generator(seed, "directions", operator, layer).choice(width, size=count, replace=False))
        for layer in layers
    }


def directions(
    maps: np.ndarray, logits: np.ndarray, count: int, seed: int, *names: object
) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian mixtures of neurons, each scaled to unit variance over the pairs.

    Args:
        maps, logits: those of the mixed neurons, (neurons, N) and (neurons, answers).

    Returns:
        Maps (count, N) and logits (count, answers) of `count` directions.
    """
    spread = maps.std(1, keepdims=True)
    scale = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0)
    weights = generator(seed, "direction-weights", *names).standard_normal((count, len(maps)), dtype=np.float32)
    return weights @ (maps * scale), weights @ (logits * scale)


def smooth_noise(grid: Grid, count: int, seed: int, *names: object) -> np.ndarray:
    """Smooth random maps, (count, N) float32, drawn independently of the null's."""
    drawn = list(random_maps(grid, count, generator(seed, "smooth-noise", *names)))
    return np.array(drawn, dtype=np.float32).reshape(count, len(grid.a))
