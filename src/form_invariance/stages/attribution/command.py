"""Stage 1 of the ranking of one cell: estimate the indirect effect of every late neuron."""

import argparse

from form_invariance.stages.options import add_options, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--dataset", "--corrupt-table", "--candidates", output="attribution table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.attribution.compute import first_stage
    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import write_table
    from form_invariance.tables.keys import common_keys

    run = load_run(arguments)
    train = read_train(arguments.dataset, arguments.corrupt_table, run.tokenizer, run.model.device)
    table = first_stage(run, train, arguments.candidates)
    provenance = run_provenance(arguments, run, "candidates")
    write_table(table, arguments.output, ATTRIBUTION, provenance, common_keys(arguments.dataset))
