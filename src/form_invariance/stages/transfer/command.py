"""Cross-format transfer of one operator, in all directions."""

import argparse

from form_invariance.stages.options import add_options, add_required, add_run_arguments

HELP = "transfer the shared neurons' activations between formats"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--operator", "--census", "--circuit", "--pairs", "--center-logits", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(parser, output_folder="receives DONOR_to_TARGET.parquet of every direction")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.stages.transfer import directions
    from form_invariance.stages.transfer.table import TRANSFER
    from form_invariance.tables.files import read_table, read_tables, write_table

    censuses = read_tables(arguments.census, CENSUS)
    plans = directions.plan(censuses, arguments.pairs, arguments.seed, arguments.operator)
    circuit = read_table(arguments.circuit, CIRCUIT)
    own = load_run(arguments)
    shares = directions.circuit_shares(own, circuit, arguments.k, arguments.seed, arguments.operator)
    provenance = run_provenance(arguments, own, "center_logits", "pairs", "seed")
    for (donor, target), table in directions.transfer_tables(own, plans, shares, arguments.center_logits):
        write_table(table, arguments.output_folder / f"{donor}_to_{target}.parquet", TRANSFER, provenance)
