"""Transfer a part of the shared neurons' activations, or of the neurons, in all directions of one operator."""

import argparse

from form_invariance.stages.options import add_options, add_required
from form_invariance.stages.transfer import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_arguments(parser)
    add_options(parser, "--k", output="dose table")
    add_required(parser, float, "+", dose="doses from 0 to 1")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.run import run_provenance
    from form_invariance.stages.transfer import dose
    from form_invariance.stages.transfer.table import DOSE
    from form_invariance.tables.files import read_table, write_table

    run, plans, rankings = options.read_arguments(arguments)
    arguments.dose = sorted(set(arguments.dose))
    orders = dose.best_first(read_table(arguments.circuit, CIRCUIT), arguments.k, rankings, run.late)
    sets = dose.dose_sets(
        orders, run.width, arguments.dose, arguments.random_seeds, arguments.seed, arguments.operator
    )
    table = dose.dose_table(run, plans, sets, arguments.center_logits).assign(k=arguments.k)
    provenance = run_provenance(arguments, run, "center_logits", "pairs", "dose", "random_seeds", "seed")
    write_table(table, arguments.output, DOSE, provenance)
