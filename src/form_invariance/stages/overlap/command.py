"""How far the formats' top-k neurons overlap: Jaccard, chance and ceiling, for one operator."""

import argparse

from form_invariance.stages.options import add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--effects", "--membership", "--bootstrap", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(parser, output="overlap table", reliability_output="reliability table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.membership import Membership, read_effects
    from form_invariance.stages.overlap.compute import by_both_rules, reliability_table
    from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys

    cells, models = read_effects(
        by_key(arguments.effects, "format"), Membership(arguments.membership, arguments.seed)
    )
    ks = sorted(set(arguments.k))
    provenance = {"models": models, "k": ks, **settings(arguments, "membership", "bootstrap", "seed")}
    overlap = by_both_rules(cells, ks, arguments.bootstrap, arguments.seed)
    reliability = reliability_table(cells, ks, arguments.seed)
    keys = common_keys(*arguments.effects)
    write_table(overlap, arguments.output, OVERLAP, provenance, keys)
    write_table(reliability, arguments.reliability_output, RELIABILITY, provenance, keys)
