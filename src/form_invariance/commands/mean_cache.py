"""Mean activations for the ablations."""

import argparse
from pathlib import Path

from form_invariance.commands.arguments import (
    add_model_arguments,
    load_model,
    model_provenance,
    named_paths,
)

HELP = "mean activation of every neuron and head, by position from the last token"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model_arguments(parser)
    parser.add_argument(
        "--census", nargs="+", required=True, metavar="OPERATOR=FILE", help="census tables of one format"
    )
    parser.add_argument(
        "--exclude", type=Path, nargs="*", default=[], help="datasets whose operand pairs are left out"
    )
    parser.add_argument("--prompts", type=int, default=1000, help="prompts in all, shared by the operators")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample")
    parser.add_argument("--output", type=Path, required=True, help="mean cache (safetensors)")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance import mean_cache
    from form_invariance.schemas.census import CENSUS
    from form_invariance.schemas.dataset import DATASET
    from form_invariance.tables_io import read_table, write_tensors

    censuses = {name: read_table(path, CENSUS) for name, path in named_paths(arguments.census, "--census").items()}
    excluded = [read_table(path, DATASET) for path in arguments.exclude]
    chosen = mean_cache.choose_prompts(censuses, excluded, arguments.prompts, arguments.seed)
    model, tokenizer = load_model(arguments)
    cache = mean_cache.compute(model, tokenizer, list(chosen.values()))
    provenance = {
        **model_provenance(arguments),
        "seed": arguments.seed,
        "prompts": {operator: len(prompts) for operator, prompts in chosen.items()},
        "positions": len(cache.count),
    }
    write_tensors(mean_cache.to_tensors(cache), arguments.output, "mean_cache", provenance)
