"""Overlap of the formats' best attention heads for one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_late_arguments, add_options, settings

HELP = "how far the formats' best attention heads overlap: Jaccard, chance and ceiling"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_late_arguments(parser)
    add_options(parser, "--membership", "--bootstrap", "--seed")
    parser.add_argument(
        "--effects", type=Path, required=True, help="the heads' effects by prompt, of every format"
    )
    parser.add_argument("--heads", type=int, nargs="+", required=True, help="how many heads a format's set has")
    parser.add_argument("--output", type=Path, required=True, help="head overlap table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.head_overlap.compute import head_overlap_table
    from form_invariance.stages.head_overlap.table import HEAD_OVERLAP
    from form_invariance.stages.late_layers import late_layer_of
    from form_invariance.stages.patching.effects import Membership
    from form_invariance.tables.files import read_tensors, write_table

    tensors, provenance = read_tensors(arguments.effects, "head_effects")
    effects = {name: tensors[name] for name in provenance["formats"]}
    first = late_layer_of(arguments, next(iter(effects.values())).shape[1])
    sizes = sorted(set(arguments.heads))
    membership = Membership(arguments.membership, arguments.seed)
    table = head_overlap_table(effects, sizes, first, arguments.bootstrap, membership)
    recorded = {"model": provenance["model"], "first_late_layer": first}
    write_table(
        table,
        arguments.output,
        HEAD_OVERLAP,
        {**recorded, **settings(arguments, "membership", "bootstrap", "seed")},
    )
