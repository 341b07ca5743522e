"""What each shared neuron does alone, in one cell."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import add_center_argument, add_model_arguments, load_model, model_provenance

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
    from form_invariance.stages.cells import read_eval
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.interventions.compute import circuit_members
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.neuron_effects.compute import neuron_effects
    from form_invariance.stages.neuron_effects.table import NEURON_EFFECTS
    from form_invariance.tables.files import read_table, write_table

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
