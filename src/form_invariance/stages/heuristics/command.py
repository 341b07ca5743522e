"""Heuristics of the shared neurons of a cell."""

from pathlib import Path

import numpy as np

from form_invariance.experiment.options import Files, Seed, Size, recorded
from form_invariance.stages.circuit.table import CIRCUIT, neurons_of
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.baselines import labelled_neurons, mean_effects
from form_invariance.stages.heuristics.labels import label_maps
from form_invariance.stages.heuristics.null import check_drawn_with, read_null
from form_invariance.stages.heuristics.pairs import GridOptions, grid_of
from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS, ordered
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_table, read_tables, read_tensors, write_table
from form_invariance.tables.keys import by_key, common_keys


def draw(
    *, circuit: Path, ranking_tables: Files, format_mean_caches: Files, k: Size, seed: Seed, output: Path
) -> None:
    """Choose the neurons that are labelled: shared ones and baselines.

    Args:
        ranking_tables: ranking table of every format
        format_mean_caches: mean cache of every format, for the neurons' variances
        output: table of the neurons
    """
    settings = recorded(locals())

    keys = common_keys(circuit)
    shared = neurons_of(read_table(circuit, CIRCUIT), k)
    caches = [read_tensors(path, "mean_cache")[0] for path in format_mean_caches]
    layers = shared["layer"].unique().tolist()
    variance = {layer: np.mean([cache[f"variance.{layer}"] for cache in caches], axis=0) for layer in layers}
    widths = {layer: len(variances) for layer, variances in variance.items()}
    effects = mean_effects(read_tables(by_key(ranking_tables, "format"), RANKING), widths)
    table = labelled_neurons(shared, variance, effects, seed, keys["operator"])
    write_table(table, output, LABELLED_NEURONS, settings, keys)


def label(
    *,
    grid: GridOptions,
    null: Path,
    neurons: Path,
    maps: Path,
    threshold: float,
    seed: Seed,
    processes: int = 1,
    output: Path,
) -> None:
    """Find the heuristics that a cell's neurons follow.

    Args:
        null: random maps of the grid (heuristic-null)
        neurons: neurons to label (heuristics draw)
        maps: exact maps of these neurons (activation-maps)
        threshold: score that a label needs
        processes: how many label at the same time; default: 1
        output: heuristics table
    """
    settings = recorded({name: value for name, value in locals().items() if name != "processes"})

    keys, drawn_with = common_keys(maps), recorded({"grid": grid, "seed": seed})
    pairs, labelled = grid_of(grid), ordered(read_table(neurons, LABELLED_NEURONS))
    random = read_null(null, drawn_with, pairs)
    arrays, made = read_tensors(maps, map_files.EXACT)
    check_drawn_with(maps, made, drawn_with)
    # Each format has its own shuffle: a common one would keep what the formats' maps share.
    name = f"{keys['operator']}/{made['template']}"
    table = label_maps(arrays["maps"], arrays["logits"], pairs, labelled, threshold, random, seed, name, processes)
    write_table(table, output, HEURISTICS, settings, keys)
