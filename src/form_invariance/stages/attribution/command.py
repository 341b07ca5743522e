"""Stage 1 of the ranking."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import add_model_arguments, add_train_arguments, load_model, model_provenance

HELP = "stage 1: first-order indirect effect of every late neuron"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_train_arguments(parser)
    parser.add_argument("--candidates", type=int, default=2000, help="neurons per layer that go on to stage 2")
    parser.add_argument("--output", type=Path, required=True, help="attribution table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.attribution.compute import attribute, attribution_table
    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.cells import corrupt_activations, read_train
    from form_invariance.tables.files import write_table

    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments, model.config.n_layers)
    train = read_train(arguments.dataset, arguments.corrupt_table, tokenizer, model.device)
    corrupt = corrupt_activations(model, tokenizer, train.partners[0], first)
    effects = attribute(model, train.tokens, corrupt, train.answers[0], first)
    write_table(
        attribution_table(effects.cpu().numpy(), first, arguments.candidates),
        arguments.output,
        ATTRIBUTION,
        {**model_provenance(arguments), "first_late_layer": first, "candidates": arguments.candidates},
    )
