"""Variance components of the neurons' effects, and the formats' correlation corrected for reliability."""

import argparse

from form_invariance.errors import UserError
from form_invariance.stages.options import add_keyed, add_options, settings

_FORM = "FORMAT/OPERATOR=FILE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    outputs = {"output": "disagreement table", "correlation_output": "format_correlation table"}
    add_options(parser, "--bootstrap", "--seed", **outputs)
    add_keyed(parser, "--effects", _FORM, "indirect effects of every cell")
    add_keyed(parser, "--datasets", _FORM, "dataset tables of every cell")
    add_keyed(parser, "--corrupt-tables", _FORM, "corrupt partners of every cell")
    what = "indirect effects of the variants, of the cells that have some"
    add_keyed(parser, "--paraphrase-effects", _FORM, what, required=False)


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.pairs import read_train_pairs
    from form_invariance.stages.disagreement.compute import disagreement_tables
    from form_invariance.stages.disagreement.products import Measured, answers_of
    from form_invariance.stages.disagreement.table import DISAGREEMENT, FORMAT_CORRELATION
    from form_invariance.stages.membership import Membership, name_of, read_effects
    from form_invariance.stages.paraphrases.compute import read_wordings
    from form_invariance.stages.paraphrases.table import CANONICAL
    from form_invariance.tables.files import write_table

    effects, models = read_effects(arguments.effects, Membership())
    worded, _ = read_wordings(effects, models, arguments.paraphrase_effects)
    cells = {}
    for cell in arguments.effects:
        name = name_of(cell)
        if cell not in arguments.datasets or cell not in arguments.corrupt_tables:
            raise UserError(
                f"--datasets, --corrupt-tables: {name} is missing; give those of every cell in --effects"
            )
        train, draws = read_train_pairs(arguments.datasets[cell], arguments.corrupt_tables[cell])
        variants = [variant for text, variant in worded[cell].items() if text != CANONICAL and variant.effects]
        cells[cell] = Measured(effects[cell], answers_of(train, draws, effects[cell], name), variants)
    tables = disagreement_tables(cells, arguments.bootstrap, arguments.seed)
    provenance = {"model": next(iter(models.values())), **settings(arguments, "bootstrap", "seed")}
    outputs = arguments.output, arguments.correlation_output
    for table, path, schema in zip(tables, outputs, (DISAGREEMENT, FORMAT_CORRELATION), strict=True):
        write_table(table, path, schema, provenance)
