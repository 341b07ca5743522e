"""How far the top-k neurons of a format's operators overlap, and of any two cells by what differs between them."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--effects", "FORMAT/OPERATOR=FILE", "indirect effects of every cell")
    add_options(parser, "--membership", "--bootstrap", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(
        parser, output="operator overlap table", differing_output="overlap by what differs between two cells"
    )


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.membership import Membership, read_effects
    from form_invariance.stages.overlap.differing import differing_table, operator_overlap_table
    from form_invariance.stages.overlap.table import DIFFERING, OPERATOR_OVERLAP
    from form_invariance.tables.files import write_table

    membership = Membership(arguments.membership, arguments.seed)
    cells, models = read_effects(arguments.effects, membership)
    given = sorted(set(arguments.k)), arguments.bootstrap, arguments.seed
    provenance = {"models": models, "k": given[0], **settings(arguments, "membership", "bootstrap", "seed")}
    write_table(operator_overlap_table(cells, *given), arguments.output, OPERATOR_OVERLAP, provenance)
    write_table(differing_table(cells, *given), arguments.differing_output, DIFFERING, provenance)
