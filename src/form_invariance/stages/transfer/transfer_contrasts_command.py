"""Contrasts between the conditions of transfer, of one model."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options

HELP = "what transfer does beyond injecting an answer: contrasts of its conditions over pairs and cells"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables",
        nargs="+",
        required=True,
        metavar="INPUT/KEY=FILE",
        help="transfer/OPERATOR/DIRECTION=FILE and transfer_pairs/OPERATOR=FILE of every operator",
    )
    add_options(parser, "--bootstrap", "--seed")
    parser.add_argument("--output", type=Path, required=True, help="table of contrasts")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.options import settings
    from form_invariance.stages.transfer.contrasts import contrast_table
    from form_invariance.stages.transfer.table import TRANSFER, TRANSFER_CONTRASTS, TRANSFER_PAIRS
    from form_invariance.tables.files import write_table
    from form_invariance.tables.inputs import Input, read_inputs

    inputs = {
        "transfer": Input(TRANSFER, ("operator", "direction")),
        "transfer_pairs": Input(TRANSFER_PAIRS, ("operator",)),
    }
    tables = read_inputs(arguments.tables, inputs)
    found = contrast_table(tables["transfer"], tables["transfer_pairs"], arguments.bootstrap, arguments.seed)
    write_table(found, arguments.output, TRANSFER_CONTRASTS, settings(arguments, "bootstrap", "seed"))
