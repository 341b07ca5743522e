"""Heuristics of the shared neurons of a cell."""

from pathlib import Path

from form_invariance.experiment.options import Files, ModelOptions, Seed, Size, recorded
from form_invariance.stages.heuristics.grid_options import GridOptions
from form_invariance.stages.heuristics.names import SHARED


def draw(*, circuit: Path, rankings: Files, mean_caches: Files, k: Size, seed: Seed, output: Path) -> None:
    """Choose the neurons that are labelled: shared ones and baselines.

    Args:
        rankings: ranking table of every format
        mean_caches: mean caches, for the neurons' variances
        output: table of the neurons
    """
    settings = recorded(locals())

    import numpy as np

    from form_invariance.stages.circuit.table import CIRCUIT, neurons_of
    from form_invariance.stages.heuristics.baselines import labelled_neurons, mean_effects
    from form_invariance.stages.heuristics.table import LABELLED_NEURONS
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tables, read_tensors, write_table
    from form_invariance.tables.keys import by_key, common_keys

    keys = common_keys(circuit)
    shared = neurons_of(read_table(circuit, CIRCUIT), k)
    caches = [read_tensors(path, "mean_cache")[0] for path in mean_caches]
    layers = shared["layer"].unique().tolist()
    variance = {layer: np.mean([cache[f"variance.{layer}"] for cache in caches], axis=0) for layer in layers}
    widths = {layer: len(variances) for layer, variances in variance.items()}
    effects = mean_effects(read_tables(by_key(rankings, "format"), RANKING), widths)
    table = labelled_neurons(shared, variance, effects, seed, keys["operator"])
    write_table(table, output, LABELLED_NEURONS, settings, keys)


def label(
    *,
    model: ModelOptions,
    grid: GridOptions,
    null: Path,
    neurons: Path,
    format: str,
    template: str,
    threshold: float,
    seed: Seed,
    output: Path,
    maps_output: Path,
) -> None:
    """Find the heuristics that a cell's shared neurons follow.

    Args:
        null: random maps of the grid (heuristic-null)
        neurons: neurons to label (heuristics draw)
        format: the format's name
        template: prompt with the fields {a} and {b}
        threshold: score that a label needs
        output: heuristics table
        maps_output: activation maps, as safetensors
    """
    settings = recorded(locals())

    from form_invariance.experiment.model_options import load_model
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.labels import label_cell
    from form_invariance.stages.heuristics.null import read_null
    from form_invariance.stages.heuristics.pairs import grid_of
    from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS
    from form_invariance.tables.files import read_table, write_table, write_tensors
    from form_invariance.tables.keys import common_keys

    keys = {**common_keys(neurons), "format": format}
    decoder, tokenizer = load_model(model)
    pairs, chosen = grid_of(grid), read_table(neurons, LABELLED_NEURONS)
    random = read_null(null, recorded({"grid": grid, "seed": seed}), pairs)
    maps, table = label_cell(
        decoder, tokenizer, template, keys["operator"], pairs, chosen, threshold, random, seed
    )
    provenance = {
        **settings,
        "device": str(decoder.device),
        "neurons": int((chosen["neurons"] == SHARED).sum()),
    }
    write_tensors(maps, maps_output, map_files.KIND, provenance, keys)
    write_table(table, output, HEURISTICS, provenance, keys)
