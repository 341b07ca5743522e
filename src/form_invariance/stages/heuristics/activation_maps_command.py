"""Activations of a cell's neurons over the grid."""

from pathlib import Path

from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import ModelOptions, Seed, recorded
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.activations import cell_maps
from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.heuristics.pairs import GridOptions, grid_of
from form_invariance.stages.heuristics.table import LABELLED_NEURONS, ordered
from form_invariance.tables.files import read_table, write_tensors
from form_invariance.tables.keys import common_keys


def activation_maps(
    *,
    model: ModelOptions,
    grid: GridOptions,
    neurons: Path,
    format: str,
    template: str,
    seed: Seed,
    output: Path,
    labelled_output: Path,
) -> None:
    """Read the activations of a cell's neurons over the grid.

    Args:
        neurons: neurons to label (heuristics draw)
        format: the format's name
        template: prompt with the fields {a} and {b}
        output: maps of the shared neurons with 8 bits a value and a sample of all, as safetensors
        labelled_output: exact maps of all labelled neurons, as safetensors
    """
    settings = recorded(locals())

    keys = {**common_keys(neurons), "format": format}
    decoder, tokenizer = load_model(model)
    pairs, labelled = grid_of(grid), ordered(read_table(neurons, LABELLED_NEURONS))
    shared = (labelled["neurons"] == SHARED).to_numpy()
    exact, logits = cell_maps(decoder, tokenizer, template, keys["operator"], pairs, labelled, seed)
    provenance = {**settings, "device": str(decoder.device), "neurons": int(shared.sum())}
    shown = map_files.to_arrays(exact[shared], logits[shared], pairs, labelled[shared])
    sample = map_files.sample(exact, pairs, seed, keys["operator"])
    write_tensors(shown | sample, output, map_files.KIND, provenance, keys)
    write_tensors({"maps": exact, "logits": logits}, labelled_output, map_files.EXACT, provenance, keys)
