"""What each shared neuron does alone, in one cell."""

import argparse
from pathlib import Path

from form_invariance.commands.arguments import (
    add_center_argument,
    add_model_arguments,
    load_model,
    model_provenance,
)
from form_invariance.commands.late_arguments import add_late_arguments, first_late_layer

HELP = "knock every shared neuron out alone, and leave it alone out of the circuit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    parser.add_argument("--dataset", type=Path, required=True, help="dataset table of the cell")
    parser.add_argument("--circuit", type=Path, required=True, help="circuit table of the operator")
    parser.add_argument("--mean-cache", type=Path, required=True, help="mean cache of the format")
    parser.add_argument("--k", type=int, required=True, help="circuit size whose neurons are taken")
    add_center_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of the neurons")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.cells import read_eval
    from form_invariance.interventions import circuit_members
    from form_invariance.mean_cache import read_means
    from form_invariance.neuron_effects import neuron_effects
    from form_invariance.schemas.circuit import CIRCUIT
    from form_invariance.schemas.neuron_effects import NEURON_EFFECTS
    from form_invariance.tables_io import read_table, write_table

    model, tokenizer = load_model(arguments)
    layers, width = model.config.n_layers, model.config.d_mlp
    first = first_late_layer(arguments, layers)
    tokens, answers = read_eval(arguments.dataset, tokenizer, model.device)
    circuit = circuit_members(read_table(arguments.circuit, CIRCUIT), arguments.k, first, layers, width)
    means = read_means(arguments.mean_cache, model)
    table = neuron_effects(model, tokens, answers, circuit, first, means, arguments.center_logits)
    provenance = {
        **model_provenance(arguments),
        "first_late_layer": first,
        "center_logits": arguments.center_logits,
        "k": arguments.k,
        "prompts": len(tokens),
    }
    write_table(table, arguments.output, NEURON_EFFECTS, provenance)
