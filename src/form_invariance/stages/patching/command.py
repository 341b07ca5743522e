"""Stage 2 of the ranking."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import add_model_arguments, add_train_arguments, load_model, model_provenance

HELP = "stage 2: exact indirect effect of every candidate, by replay"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_train_arguments(parser)
    parser.add_argument("--attribution", type=Path, required=True, help="attribution table of the cell")
    parser.add_argument("--shard", default="1/1", help="patch only a piece of the late layers, for instance 1/4")
    parser.add_argument("--output", type=Path, required=True, help="indirect effects by prompt (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.cells import patch_candidates, read_candidates, read_train
    from form_invariance.stages.patching.shards import layers_of
    from form_invariance.tables.files import write_tensors

    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments, model.config.n_layers)
    train = read_train(arguments.dataset, arguments.corrupt_table, tokenizer, model.device)
    layers = layers_of(arguments.shard, first, model.config.n_layers)
    candidates = read_candidates(arguments.attribution, layers, model.device)
    effects = patch_candidates(model, tokenizer, train, first, candidates)
    tensors = {f"effects.{layer}": effect for layer, effect in effects.items()}
    tensors.update({f"candidates.{layer}": neurons for layer, neurons in candidates.items()})
    provenance = {
        **model_provenance(arguments),
        "n_layers": model.config.n_layers,
        "d_mlp": model.config.d_mlp,
        "first_late_layer": first,
        "corrupt_seeds": len(train.partners),
        "prompts": len(train.tokens),
        **({} if arguments.shard == "1/1" else {"shard": arguments.shard}),
    }
    write_tensors(tensors, arguments.output, "indirect_effects", provenance)
