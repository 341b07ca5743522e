"""Overlap of the formats' best attention heads for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.late_options import add_late_arguments, first_late_layer

HELP = "how far the formats' best attention heads overlap: Jaccard, chance and ceiling"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_late_arguments(parser)
    parser.add_argument(
        "--effects", type=Path, required=True, help="the heads' effects by prompt, of every format"
    )
    parser.add_argument("--heads", type=int, nargs="+", required=True, help="how many heads a format's set has")
    parser.add_argument("--bootstrap", type=int, default=200, help="resamples for the intervals")
    parser.add_argument("--seed", type=int, default=0, help="seed of the resamples and halves")
    parser.add_argument("--output", type=Path, required=True, help="head overlap table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.head_overlap.compute import head_overlap_table
    from form_invariance.stages.heads.table import HEAD_OVERLAP
    from form_invariance.tables.files import read_tensors, write_table

    tensors, provenance = read_tensors(arguments.effects, "head_effects")
    effects = {name: tensors[name] for name in provenance["formats"]}
    n_layers = next(iter(effects.values())).shape[1]
    first = first_late_layer(arguments, n_layers)
    sizes = sorted(set(arguments.heads))
    table = head_overlap_table(effects, sizes, first, arguments.bootstrap, arguments.seed)
    recorded = {
        "model": provenance["model"],
        "first_late_layer": first,
        "bootstrap": arguments.bootstrap,
        "seed": arguments.seed,
    }
    write_table(table, arguments.output, HEAD_OVERLAP, recorded)
