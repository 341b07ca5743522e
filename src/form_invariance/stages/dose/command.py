"""Dose of the cross-format transfer of one operator, in all directions."""

import argparse

from form_invariance.stages.options import add_options, add_required, add_run_arguments

HELP = "transfer a part of the shared neurons' activations, or of the neurons"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--operator", "--census", "--circuit", "--pairs", "--center-logits", "--seed")
    add_options(parser, "--k", "--rankings", "--exclude-train", output="dose table")
    add_required(parser, float, "+", dose="doses from 0 to 1")
    add_required(parser, int, random_seeds="random orders of the neurons")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.dose import compute as dose
    from form_invariance.stages.dose.table import DOSE
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.stages.transfer.conditions import plan
    from form_invariance.tables.files import read_table, read_tables, write_table

    censuses = read_tables(arguments.census, CENSUS)
    rankings = read_tables(arguments.rankings, RANKING)
    datasets = [read_table(path, DATASET) for path in arguments.exclude_train]
    plans = plan(censuses, datasets, arguments.pairs, arguments.seed, arguments.operator)
    run = load_run(arguments)
    arguments.dose = sorted(set(arguments.dose))
    orders = dose.best_first(read_table(arguments.circuit, CIRCUIT), arguments.k, rankings, run.late)
    sets = dose.dose_sets(
        orders, run.width, arguments.dose, arguments.random_seeds, arguments.seed, arguments.operator
    )
    table = dose.dose_table(run, plans, sets, arguments.center_logits).assign(k=arguments.k)
    provenance = run_provenance(arguments, run, "center_logits", "pairs", "dose", "random_seeds", "seed")
    write_table(table, arguments.output, DOSE, provenance)
