"""Answer the main questions about one model: effect, strongest control, interval and verdict."""

import argparse

from form_invariance.stages.options import add_files, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--tables", "the tables of contrasts, in any order")
    add_required(parser, int, k_shown="circuit size that is printed by default; the table has all")
    add_options(parser, output="verdicts table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS
    from form_invariance.stages.overlap.table import DIFFERING, OVERLAP
    from form_invariance.stages.specificity.table import SPECIFICITY_CONTRASTS
    from form_invariance.stages.summary.compute import verdicts_table
    from form_invariance.stages.summary.table import VERDICTS
    from form_invariance.stages.transfer.table import TRANSFER_CONTRASTS
    from form_invariance.tables.files import write_table
    from form_invariance.tables.inputs import input_paths, read_inputs
    from form_invariance.tables.keys import common_keys

    inputs = {
        "overlap": OVERLAP,
        "differing": DIFFERING,
        "intervention_contrasts": INTERVENTION_CONTRASTS,
        "transfer_contrasts": TRANSFER_CONTRASTS,
        "specificity_contrasts": SPECIFICITY_CONTRASTS,
    }
    tables = read_inputs(input_paths(arguments.tables, inputs, "the verdicts need"), inputs)
    keys, provenance = common_keys(*arguments.tables), settings(arguments, "k_shown")
    write_table(verdicts_table(tables), arguments.output, VERDICTS, provenance, keys)
