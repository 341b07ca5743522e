"""The activation of every shared neuron on each row of a table of words, in one format."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_model_arguments, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_required(parser, Path, census="census table of the cell, whose rows are shown")
    add_options(parser, "--circuit", "--k", output="table of the activations")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT, by_layer
    from form_invariance.stages.model_options import load_model, model_provenance
    from form_invariance.stages.neuron_effects.rows import row_activations
    from form_invariance.stages.neuron_effects.table import ROW_ACTIVATIONS
    from form_invariance.tables.files import read_table, write_table
    from form_invariance.tables.keys import common_keys

    model, tokenizer = load_model(arguments)
    neurons = by_layer(read_table(arguments.circuit, CIRCUIT), arguments.k)
    table = row_activations(model, tokenizer, read_table(arguments.census, CENSUS), neurons)
    keys = common_keys(arguments.census)
    write_table(table, arguments.output, ROW_ACTIVATIONS, model_provenance(arguments, "k"), keys)
