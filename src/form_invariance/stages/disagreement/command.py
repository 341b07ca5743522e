"""What the formats' disagreement is made of, for one model."""

import argparse
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_options, keyed_paths, settings

HELP = "variance components of the neurons' effects, and the formats' correlation corrected for reliability"
_FILES = "FORMAT/OPERATOR=FILE"
_INPUTS = {
    "--effects": "indirect effects of every cell",
    "--datasets": "dataset tables of every cell",
    "--corrupt-tables": "corrupt partners of every cell",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--bootstrap", "--seed")
    for option, text in _INPUTS.items():
        parser.add_argument(option, nargs="+", required=True, metavar=_FILES, help=text)
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
    from form_invariance.stages.dataset.prompts import read_train_pairs
    from form_invariance.stages.disagreement.compute import disagreement_tables
    from form_invariance.stages.disagreement.products import Measured, Variant, answers_of
    from form_invariance.stages.disagreement.table import DISAGREEMENT, FORMAT_CORRELATION
    from form_invariance.stages.paraphrases.compute import read_wordings
    from form_invariance.stages.paraphrases.table import CANONICAL
    from form_invariance.stages.patching.effects import read_effects
    from form_invariance.tables.files import write_table

    effects, models = read_effects(arguments.effects)
    worded, _ = read_wordings(effects, models, arguments.paraphrase_effects)
    datasets, corrupt = (
        keyed_paths(files, option, 2)
        for files, option in ((arguments.datasets, "--datasets"), (arguments.corrupt_tables, "--corrupt-tables"))
    )
    cells = {}
    for cell in keyed_paths(arguments.effects, "--effects", 2):
        name = "/".join(cell)
        if cell not in datasets or cell not in corrupt:
            raise UserError(
                f"--datasets, --corrupt-tables: {name} is missing; give those of every cell in --effects"
            )
        train, draws = read_train_pairs(datasets[cell], corrupt[cell])
        variants = [
            Variant(one.right, one.effects)
            for wording, one in worded[name].items()
            if wording != CANONICAL and one.effects is not None
        ]
        cells[cell] = Measured(effects[name], answers_of(train, draws, effects[name], name), variants)
    tables = disagreement_tables(cells, arguments.bootstrap, arguments.seed)
    provenance = {"model": next(iter(models.values())), **settings(arguments, "bootstrap", "seed")}
    outputs = arguments.output, arguments.correlation_output
    for table, path, schema in zip(tables, outputs, (DISAGREEMENT, FORMAT_CORRELATION), strict=True):
        write_table(table, path, schema, provenance)
