"""How far two operators' or any two cells' top-k neurons overlap, and how two formats' effects correlate."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required, check_cells, settings

_FORM = "FORMAT/OPERATOR=FILE"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--effects", _FORM, "indirect effects of every cell")
    variants = "indirect effects of the variants, whose format is FORMAT~N"
    add_keyed(parser, "--variant-effects", _FORM, variants, required=False)
    add_keyed(parser, "--datasets", _FORM, "dataset tables of every cell")
    add_keyed(parser, "--corrupt-tables", _FORM, "corrupt partners of every cell")
    add_options(parser, "--membership", "--bootstrap", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(
        parser,
        output="operator overlap table",
        differing_output="overlap by what differs between two cells",
        correlation_output="correlation of two formats' effects",
    )


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.dataset.pairs import read_train_pairs
    from form_invariance.stages.membership import Membership, name_of, read_effects
    from form_invariance.stages.overlap.correlation import Measured, answers_of, format_correlation_table
    from form_invariance.stages.overlap.differing import differing_table, operator_overlap_table
    from form_invariance.stages.overlap.table import DIFFERING, FORMAT_CORRELATION, OPERATOR_OVERLAP
    from form_invariance.tables.files import write_table

    check_cells(arguments, "--effects", "--datasets", "--corrupt-tables")
    membership = Membership(arguments.membership, arguments.seed)
    every, models = read_effects({**arguments.effects, **arguments.variant_effects}, membership)
    cells, variants = (
        {cell: every[cell] for cell in some} for some in (arguments.effects, arguments.variant_effects)
    )
    given = sorted(set(arguments.k)), arguments.bootstrap, arguments.seed
    provenance = {"models": models, "k": given[0], **settings(arguments, "membership", "bootstrap", "seed")}
    write_table(operator_overlap_table(cells, *given), arguments.output, OPERATOR_OVERLAP, provenance)
    write_table(differing_table(cells, *given, variants), arguments.differing_output, DIFFERING, provenance)
    measured = {}
    for cell, effects in cells.items():
        train, draws = read_train_pairs(arguments.datasets[cell], arguments.corrupt_tables[cell])
        measured[cell] = Measured(effects, answers_of(train, draws, effects, name_of(cell)))
    correlation = format_correlation_table(measured, *given[1:])
    write_table(correlation, arguments.correlation_output, FORMAT_CORRELATION, provenance)
