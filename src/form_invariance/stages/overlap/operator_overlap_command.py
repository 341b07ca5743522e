"""How far two operators' or any two cells' top-k neurons overlap, and how two formats' effects correlate."""

import argparse

from form_invariance.stages.options import add_files, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--effects", "indirect effects of every cell")
    variants = "indirect effects of the variants, whose format is FORMAT~N"
    add_files(parser, "--variant-effects", variants, required=False)
    add_files(parser, "--datasets", "dataset tables of every cell")
    add_files(parser, "--corrupt-tables", "corrupt partners of every cell")
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
    from form_invariance.tables.keys import by_cell, common_keys, matching_cells

    own, datasets, partners = matching_cells(
        effects=arguments.effects, datasets=arguments.datasets, corrupt_tables=arguments.corrupt_tables
    )
    of_variants = by_cell(arguments.variant_effects)
    membership = Membership(arguments.membership, arguments.seed)
    every, models = read_effects({**own, **of_variants}, membership)
    cells, variants = ({cell: every[cell] for cell in some} for some in (own, of_variants))
    keys = common_keys(*arguments.effects)
    given = sorted(set(arguments.k)), arguments.bootstrap, arguments.seed
    provenance = {"models": models, "k": given[0], **settings(arguments, "membership", "bootstrap", "seed")}
    write_table(operator_overlap_table(cells, *given), arguments.output, OPERATOR_OVERLAP, provenance, keys)
    write_table(differing_table(cells, *given, variants), arguments.differing_output, DIFFERING, provenance, keys)
    measured = {}
    for cell, effects in cells.items():
        train, draws = read_train_pairs(datasets[cell], partners[cell])
        measured[cell] = Measured(effects, answers_of(train, draws, effects, name_of(cell)))
    correlation = format_correlation_table(measured, *given[1:])
    write_table(correlation, arguments.correlation_output, FORMAT_CORRELATION, provenance, keys)
