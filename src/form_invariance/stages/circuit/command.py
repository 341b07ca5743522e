"""The shared circuit of one operator: neurons that are in every format's top-k."""

import argparse

from form_invariance.stages.options import add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--effects", "--membership", "--seed", output="circuit table")
    add_required(parser, int, "+", k="circuit sizes")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.circuit.compute import circuit_table
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.membership import Membership, read_effects
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import by_key, common_keys

    cells, models = read_effects(
        by_key(arguments.effects, "format"), Membership(arguments.membership, arguments.seed)
    )
    ks = sorted(set(arguments.k))
    provenance = {"models": models, "k": ks, **settings(arguments, "membership", "seed")}
    keys = common_keys(*arguments.effects)
    write_table(circuit_table(cells, ks), arguments.output, CIRCUIT, provenance, keys)
