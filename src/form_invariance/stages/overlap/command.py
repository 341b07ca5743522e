"""Overlap of the formats' circuits for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_effects_arguments, read_effects

HELP = "how far the formats' top-k neurons overlap: Jaccard, chance and ceiling"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_effects_arguments(parser)
    parser.add_argument("--bootstrap", type=int, default=200, help="resamples for the intervals")
    parser.add_argument("--seed", type=int, default=0, help="seed of the resamples and halves")
    parser.add_argument("--output", type=Path, required=True, help="overlap table")
    parser.add_argument("--reliability-output", type=Path, required=True, help="reliability table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.overlap import compute as intersection
    from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
    from form_invariance.tables.files import write_table

    cells, models = read_effects(arguments)
    ks = sorted(set(arguments.k))
    provenance = {"models": models, "k": ks, "bootstrap": arguments.bootstrap, "seed": arguments.seed}
    overlap = intersection.overlap_table(cells, ks, arguments.bootstrap, arguments.seed)
    reliability = intersection.reliability_table(cells, ks, arguments.seed)
    write_table(overlap, arguments.output, OVERLAP, provenance)
    write_table(reliability, arguments.reliability_output, RELIABILITY, provenance)
