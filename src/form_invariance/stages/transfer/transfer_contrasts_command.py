"""What transfer does beyond injecting an answer: contrasts of its conditions over pairs and cells of a model."""

import argparse

from form_invariance.stages.options import add_files, add_options, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--tables", "transfer and transfer_pairs tables of every operator")
    add_options(parser, "--bootstrap", "--seed", output="table of contrasts")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.transfer.contrasts import contrast_table
    from form_invariance.stages.transfer.table import CONTRASTED, TRANSFER_CONTRASTS
    from form_invariance.tables.files import write_table
    from form_invariance.tables.inputs import input_paths, read_inputs
    from form_invariance.tables.keys import common_keys

    tables = read_inputs(input_paths(arguments.tables, CONTRASTED, "the contrasts need"), CONTRASTED)
    contrasts = contrast_table(tables["transfer"], tables["transfer_pairs"], arguments.bootstrap, arguments.seed)
    keys, provenance = common_keys(*arguments.tables), settings(arguments, "bootstrap", "seed")
    write_table(contrasts, arguments.output, TRANSFER_CONTRASTS, provenance, keys)
