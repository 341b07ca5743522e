"""What the formats' disagreement is made of, for one model."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options, keyed_paths, settings

HELP = "variance components of the neurons' effects, and the formats' correlation corrected for reliability"
_FILES = "FORMAT/OPERATOR=FILE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--bootstrap", "--seed")
    parser.add_argument(
        "--effects", nargs="+", required=True, metavar=_FILES, help="indirect effects of every cell"
    )
    parser.add_argument(
        "--paraphrase-effects",
        nargs="+",
        default=[],
        metavar=_FILES,
        help="indirect effects of the variants, of the cells that have some",
    )
    parser.add_argument("--output", type=Path, required=True, help="disagreement table")
    parser.add_argument("--correlation-output", type=Path, required=True, help="format_correlation table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.disagreement.compute import disagreement_tables
    from form_invariance.stages.disagreement.products import Variant
    from form_invariance.stages.disagreement.table import DISAGREEMENT, FORMAT_CORRELATION
    from form_invariance.stages.paraphrases.compute import read_wordings
    from form_invariance.stages.paraphrases.table import CANONICAL
    from form_invariance.stages.patching.effects import read_effects
    from form_invariance.tables.files import write_table

    keys = {"/".join(key): key for key in keyed_paths(arguments.effects, "--effects", 2)}
    effects, models = read_effects(arguments.effects)
    worded, _ = read_wordings(effects, models, arguments.paraphrase_effects)
    cells = {key: effects[name] for name, key in keys.items()}
    variants = {
        key: [
            Variant(one.right, one.effects)
            for wording, one in worded[name].items()
            if wording != CANONICAL and one.effects is not None
        ]
        for name, key in keys.items()
    }
    tables = disagreement_tables(cells, variants, arguments.bootstrap, arguments.seed)
    provenance = {"model": next(iter(models.values())), **settings(arguments, "bootstrap", "seed")}
    for table, path, schema in zip(
        tables,
        (arguments.output, arguments.correlation_output),
        (DISAGREEMENT, FORMAT_CORRELATION),
        strict=True,
    ):
        write_table(table, path, schema, provenance)
