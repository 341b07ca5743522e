"""Transfer the shared neurons' activations between formats, in all directions of one operator."""

import argparse

from form_invariance.stages.options import add_files, add_options, add_required, add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    add_options(parser, "--census", "--exclude-train", "--rankings", "--circuit", "--pairs")
    add_options(parser, "--random-seeds", "--matched-seeds", "--center-logits", "--seed")
    add_required(parser, int, "+", k="circuit sizes")
    add_files(parser, "--mean-caches", "mean cache of every format's own template")
    add_options(parser, output_folder="receives DONOR_to_TARGET.parquet of every direction")
    add_options(parser, pairs_output="table by pair")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.compute import read_circuits
    from form_invariance.stages.controls import Draws
    from form_invariance.stages.dataset.table import DATASET
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.stages.transfer.conditions import plan
    from form_invariance.stages.transfer.directions import transfer_tables
    from form_invariance.stages.transfer.neuron_sets import measure, neuron_sets
    from form_invariance.stages.transfer.table import TRANSFER, TRANSFER_PAIRS
    from form_invariance.tables.files import read_table, read_tables, write_table
    from form_invariance.tables.keys import by_key, common_keys

    keys = common_keys(*arguments.census)
    operator, caches = keys["operator"], by_key(arguments.mean_caches, "format")
    censuses = read_tables(by_key(arguments.census, "format"), CENSUS)
    rankings = read_tables(by_key(arguments.rankings, "format"), RANKING)
    datasets = [read_table(path, DATASET) for path in arguments.exclude_train]
    plans = plan(censuses, datasets, arguments.pairs, arguments.seed, operator)
    run = load_run(arguments)
    formats, means = {}, {}
    for name, ranking in rankings.items():
        cache = read_means(caches[name], run.model)
        means[name], variance = cache.last_token(run.first), cache.late_variance(run.first)
        formats[name] = measure(run, ranking, variance)
    circuits = read_circuits(arguments.circuit, arguments.k, run.late, run.width)
    draws = Draws(arguments.random_seeds, arguments.matched_seeds, arguments.seed)
    sets = neuron_sets(run, circuits, formats, operator, draws)
    provenance = run_provenance(arguments, run, "center_logits", "pairs", "random_seeds", "matched_seeds", "seed")
    by_pair = []
    for (donor, target), rates, pairs in transfer_tables(run, plans, means, sets, arguments.center_logits):
        write_table(rates, arguments.output_folder / f"{donor}_to_{target}.parquet", TRANSFER, provenance, keys)
        by_pair.append(pairs)
    write_table(pd.concat(by_pair, ignore_index=True), arguments.pairs_output, TRANSFER_PAIRS, provenance, keys)
