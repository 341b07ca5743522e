"""Activations on the rows of a table of words."""

from pathlib import Path

from form_invariance.beyond.neuron_effects import rows
from form_invariance.beyond.neuron_effects.table import ROW_ACTIVATIONS
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import ModelOptions, Size, recorded
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.circuit.table import CIRCUIT, by_layer, neurons_of
from form_invariance.tables.files import read_table, write_table
from form_invariance.tables.keys import common_keys


def row_activations(*, model: ModelOptions, census: Path, circuit: Path, k: Size, output: Path) -> None:
    """Measure the activation of every shared neuron on each row of a table of words, in one format.

    Args:
        census: census table of the cell, whose rows are shown
        output: table of the activations
    """
    settings = recorded(locals())

    decoder, tokenizer = load_model(model)
    neurons = by_layer(neurons_of(read_table(circuit, CIRCUIT), k))
    table = rows.row_activations(decoder, tokenizer, read_table(census, CENSUS), neurons)
    provenance = {**settings, "device": str(decoder.device)}
    write_table(table, output, ROW_ACTIVATIONS, provenance, common_keys(census))
