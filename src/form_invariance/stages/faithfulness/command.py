"""Areas under the faithfulness curve (CPR and CMD) of one operator's best neurons and of random ones."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_run_arguments, check_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    for option, text in (
        ("--dataset", "dataset table"),
        ("--rankings", "ranking table"),
        ("--attribution", "attribution table"),
        ("--mean-cache", "mean cache"),
    ):
        add_keyed(parser, option, "FORMAT=FILE", f"{text} of each format")
    add_options(parser, "--operator", "--random-seeds", "--bootstrap", "--seed", output="faithfulness table")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd
    import torch

    from form_invariance.stages.attribution.table import ATTRIBUTION
    from form_invariance.stages.dataset.prompts import read_eval
    from form_invariance.stages.faithfulness.compute import cell_rows, orders_of, places
    from form_invariance.stages.faithfulness.table import FAITHFULNESS_AREAS
    from form_invariance.stages.mean_cache.compute import read_means
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import read_tables, write_table
    from form_invariance.tables.progress import track

    check_cells(arguments, "--dataset", "--rankings", "--attribution", "--mean-cache")
    rankings, first = read_tables(arguments.rankings, RANKING), read_tables(arguments.attribution, ATTRIBUTION)
    run, seed, operator = load_run(arguments), arguments.seed, arguments.operator
    ranked = {name: places(run, table, first[name]) for name, table in rankings.items()}
    parts = []
    for name, dataset in track(arguments.dataset.items(), len(arguments.dataset), "formats"):
        tokens, right = read_eval(dataset, run.tokenizer, run.model.device)
        orders = orders_of(run, ranked, name, first[name], arguments.random_seeds, seed, operator)
        cache = read_means(arguments.mean_cache[name], run.model)
        means = torch.stack([of_layer[0] for of_layer in cache.neurons[run.first :]])
        rows = cell_rows(run, tokens, right, orders, means, arguments.bootstrap, seed, name, operator)
        parts.append(pd.DataFrame(rows).assign(format=name))
    table = pd.concat(parts, ignore_index=True)
    provenance = run_provenance(arguments, run, "random_seeds", "bootstrap", "seed")
    write_table(table, arguments.output, FAITHFULNESS_AREAS, provenance)
