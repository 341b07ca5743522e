"""How far the top-k neurons of a format's wordings overlap, and those of two formats, for one operator."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--effects", "--membership", "--bootstrap", "--seed", output="paraphrases table")
    add_required(parser, int, "+", k="circuit sizes")
    what = "indirect effects of the variants, of the formats that have some"
    add_keyed(parser, "--paraphrase-effects", "FORMAT=FILE", what)


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.membership import Membership, read_effects
    from form_invariance.stages.paraphrases.compute import paraphrases_table, read_wordings
    from form_invariance.stages.paraphrases.table import PARAPHRASES
    from form_invariance.tables.files import write_table

    cells, models = read_effects(arguments.effects, Membership(arguments.membership, arguments.seed))
    formats, texts = read_wordings(cells, models, arguments.paraphrase_effects)
    ks = sorted(set(arguments.k))
    table = paraphrases_table(formats, ks, arguments.bootstrap, arguments.seed)
    provenance = {"models": models, "k": ks, "variants": texts, **settings(arguments, "bootstrap", "seed")}
    write_table(table, arguments.output, PARAPHRASES, provenance)
