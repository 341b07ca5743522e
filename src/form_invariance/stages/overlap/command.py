"""Overlap of the formats' circuits for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, add_sizes_argument, settings

HELP = "how far the formats' top-k neurons overlap: Jaccard, chance and ceiling"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--effects", "--membership", "--bootstrap", "--seed")
    add_sizes_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="overlap table")
    parser.add_argument("--reliability-output", type=Path, required=True, help="reliability table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.overlap.compute import by_both_rules, reliability_table
    from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
    from form_invariance.stages.patching.effects import Membership, read_effects
    from form_invariance.tables.files import write_table

    cells, models = read_effects(arguments.effects, Membership(arguments.membership, arguments.seed))
    ks = sorted(set(arguments.k))
    provenance = {"models": models, "k": ks, **settings(arguments, "membership", "bootstrap", "seed")}
    overlap = by_both_rules(cells, ks, arguments.bootstrap, arguments.seed)
    reliability = reliability_table(cells, ks, arguments.seed)
    write_table(overlap, arguments.output, OVERLAP, provenance)
    write_table(reliability, arguments.reliability_output, RELIABILITY, provenance)
