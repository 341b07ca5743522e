"""Test whether the shared neurons of one operator carry the same heuristic families in every format."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--operator", "--seed")
    add_keyed(parser, "--heuristics", "FORMAT=FILE", "heuristics tables of every format")
    add_options(parser, neurons="labelled neurons (heuristics draw)")
    add_required(parser, int, permutations="permutations of the null")
    add_options(parser, output="agreement table", labelled_output="table of labelled neurons")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.agreement.compute import operator_tables
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.heuristics.names import MODES
    from form_invariance.stages.heuristics.table import HEURISTICS, LABELLED_NEURONS
    from form_invariance.tables.files import provenance_of, read_table, read_tables, write_table

    tables = read_tables(arguments.heuristics, HEURISTICS)
    neurons = read_table(arguments.neurons, LABELLED_NEURONS)
    digits = [provenance_of(path).get("digit") for path in arguments.heuristics.values()]
    found, labelled = operator_tables(
        tables,
        neurons,
        arguments.permutations,
        arguments.seed,
        arguments.operator,
        MODES if set(digits) == {None} else ["strict"],
    )
    provenance = settings(arguments, "operator", "permutations", "seed")
    write_table(labelled, arguments.labelled_output, LABELLED, provenance)
    write_table(found, arguments.output, AGREEMENT, provenance)
