"""The heuristics table of one cell: both modes, observed and shuffled activations."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.heuristics import published, strict
from form_invariance.stages.heuristics.classes import base_rate
from form_invariance.stages.heuristics.names import DIGIT, SHARED, family
from form_invariance.stages.heuristics.null import Null
from form_invariance.stages.heuristics.pairs import Grid, published_part
from form_invariance.stages.heuristics.ranking import ranked
from form_invariance.stages.heuristics.table import HEURISTICS

ROWS = 16
"""A process labels this many neurons at once."""

Label = Callable[[np.ndarray, np.ndarray, float], pd.DataFrame]
"""Takes K maps (neurons, N), logits (neurons, answers) and the smallest score; returns the rows of both modes."""

_worker: dict[str, Label] = {}
"""The labelling function of this process, if it is one of several. Its grid and null are sent once."""


def _begin(label: Label) -> None:
    _worker["label"] = label


def _label(maps: np.ndarray, logits: np.ndarray, floor: float) -> pd.DataFrame:
    return _worker["label"](maps, logits, floor)


def _both_modes(
    grid: Grid, null: Null, threshold: float, maps: np.ndarray, logits: np.ndarray, floor: float
) -> pd.DataFrame:
    """Scores in both modes; columns mode, neuron (row of the maps), and those of `strict.score`."""
    answer = np.unique(grid.answer, return_inverse=True)[1]
    operand, result = ranked(maps), ranked(maps * logits[:, answer])
    tables = [strict.score(operand, result, grid, null, threshold, floor).assign(mode="strict")]
    if grid.kind != DIGIT:  # The published algorithm knows no digits.
        keep, part = published_part(grid)
        if not keep.all():
            operand, result = ([ranking.among(keep) for ranking in rankings] for rankings in (operand, result))
        table = published.score(operand, result, part, floor)
        # A pattern may have a row for each end; the better one counts.
        table = table.sort_values("score", ascending=False).drop_duplicates(["neuron", "heuristic"])
        base = np.array([base_rate(name, part) for name in table["heuristic"]], dtype=float)
        more = {"base_rate": base, "lift": table["score"] / base, "p_value": np.nan, "mode": "reference"}
        tables.append(table.assign(**more, label=table["score"] >= threshold))
    return pd.concat(tables, ignore_index=True)


def shuffled(maps: np.ndarray, seed: int, *names: str) -> np.ndarray:
    """Each neuron's activations shuffled over the pairs, independently of other neurons, (neurons, N)."""
    return generator(seed, "shuffled-activations", *names).permuted(maps, axis=1)


def label_maps(
    maps: np.ndarray,
    logits: np.ndarray,
    grid: Grid,
    neurons: pd.DataFrame,
    threshold: float,
    null: Null,
    seed: int,
    name: str,
    processes: int = 1,
) -> pd.DataFrame:
    """The heuristics table of a cell.

    Args:
        maps: K maps, (neurons, N) float32.
        logits: logit of each answer by neuron, (neurons, answers): KV map = K map x logit of the pair's answer.
        neurons: columns neurons, layer, neuron; a row for each map, in the same order.
        threshold: score that a label needs.
        null: the random maps of the grid.
        name: name of the cell, for the seeded shuffle.
        processes: number of processes that label at the same time.

    Returns:
        For observed activations, the rows with a score of at least half the threshold. For shuffled activations,
        which only the shared neurons have, the labels alone.
    """
    label = partial(_both_modes, grid, null, threshold)
    shared = np.flatnonzero(neurons["neurons"] == SHARED)
    jobs, batches = [], []
    for activations, rows, values, floor in (
        ("observed", np.arange(len(maps)), maps, threshold / 2),
        ("shuffled", shared, shuffled(maps[shared], seed, name), threshold),
    ):
        for start in range(0, len(rows), ROWS):
            batch = slice(start, start + ROWS)
            jobs.append((activations, rows[batch]))
            batches.append((values[batch], logits[rows[batch]], floor))
    if processes == 1 or len(jobs) < 2:
        tables = [label(*batch) for batch in batches]
    else:
        with ProcessPoolExecutor(processes, initializer=_begin, initargs=(label,)) as pool:
            tables = [*pool.map(_label, *zip(*batches, strict=True))]
    labelled = [
        pd.DataFrame(columns=[*HEURISTICS.columns]).astype({"layer": "int64", "neuron": "int64", "label": bool})
    ]
    for (activations, rows), table in zip(jobs, tables, strict=True):
        table = table if activations == "observed" else table[table["label"]]
        identities = neurons.iloc[rows[table["neuron"].to_numpy(dtype=np.int64)]].reset_index(drop=True)
        table = table.drop(columns="neuron").reset_index(drop=True).join(identities)
        labelled.append(table.assign(activations=activations, family=table["heuristic"].map(family)))
    columns = ["mode", "neurons", "activations", "layer", "neuron", "heuristic"]
    return pd.concat(labelled[1:] or labelled).sort_values(columns, ignore_index=True)
