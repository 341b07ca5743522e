"""What a model's lower precision does to one cell's ranking."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer
from form_invariance.stages.options import add_model_arguments, add_train_arguments, load_model, model_provenance

HELP = "compare the ranking in a lower precision with that in float32, on a sample of prompts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    add_late_arguments(parser)
    add_train_arguments(parser)
    parser.add_argument("--attribution", type=Path, required=True, help="attribution table of the cell")
    parser.add_argument("--prompts", type=int, default=10, help="train prompts of the sample")
    parser.add_argument("--output", type=Path, required=True, help="precision table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.precision.compute import compare
    from form_invariance.stages.precision.table import PRECISION
    from form_invariance.tables.files import write_table

    lower, neurons = _effects(arguments)
    exact, _ = _effects(argparse.Namespace(**{**vars(arguments), "dtype": "float32"}))
    table = compare(exact, lower, neurons).assign(dtype=arguments.dtype)
    write_table(table, arguments.output, PRECISION, model_provenance(arguments))


def _effects(arguments: argparse.Namespace) -> tuple[dict, dict]:  # type: ignore[type-arg]
    """Effects (P, C) and candidates (C,) by layer, in the precision that the options name."""
    from form_invariance.stages.cells import TrainPrompts, patch_candidates, read_candidates, read_train

    model, tokenizer = load_model(arguments)
    first = first_late_layer(arguments, model.config.n_layers)
    train = read_train(arguments.dataset, arguments.corrupt_table, tokenizer, model.device)
    sample = slice(0, arguments.prompts)
    some = TrainPrompts(
        train.tokens[sample], [train.partners[0][sample]], train.answers[:1, sample], train.operands[sample]
    )
    candidates = read_candidates(arguments.attribution, range(first, model.config.n_layers), model.device)
    effects = patch_candidates(model, tokenizer, some, first, candidates)
    return (
        {layer: effect[0].cpu().numpy() for layer, effect in effects.items()},
        {layer: one.cpu().numpy() for layer, one in candidates.items()},
    )
