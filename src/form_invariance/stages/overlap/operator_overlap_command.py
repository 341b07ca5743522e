"""Overlap of the operators' circuits in each format."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, add_sizes_argument, settings

HELP = "how far the top-k neurons of two operators of one format overlap"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--effects",
        nargs="+",
        required=True,
        metavar="FORMAT/OPERATOR=FILE",
        help="indirect effects of every cell",
    )
    add_options(parser, "--bootstrap", "--seed")
    add_sizes_argument(parser)
    parser.add_argument("--output", type=Path, required=True, help="operator overlap table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.overlap.operators import operator_overlap_table
    from form_invariance.stages.overlap.table import OPERATOR_OVERLAP
    from form_invariance.stages.patching.effects import Effects, read_effects
    from form_invariance.tables.files import write_table

    effects, models = read_effects(arguments.effects)
    cells: dict[str, dict[str, Effects]] = {}
    for key, one in effects.items():
        name, operator = key.split("/")
        cells.setdefault(name, {})[operator] = one
    ks = sorted(set(arguments.k))
    table = operator_overlap_table(cells, ks, arguments.bootstrap, arguments.seed)
    provenance = {"models": models, "k": ks, **settings(arguments, "bootstrap", "seed")}
    write_table(table, arguments.output, OPERATOR_OVERLAP, provenance)
