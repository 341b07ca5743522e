"""Recall of the exact top-k among each method's candidates, in the cells where every neuron was patched."""

import argparse

from form_invariance.stages.options import add_keyed, add_options, add_required, add_run_arguments, check_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_arguments(parser)
    for option, text in (
        ("--dataset", "dataset tables"),
        ("--corrupt-table", "corrupt partners"),
        ("--rankings", "ranking tables"),
    ):
        add_keyed(parser, option, "FORMAT/OPERATOR=FILE", f"{text} of all cells")
    add_required(parser, int, "+", k="circuit sizes")
    add_options(parser, output="audit table")


def run(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from form_invariance.stages.audit.compute import audit_cell, estimates_of
    from form_invariance.stages.audit.table import AUDIT
    from form_invariance.stages.dataset.prompts import read_train
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.run import load_run, run_provenance
    from form_invariance.tables.files import read_tables, write_table
    from form_invariance.tables.progress import track

    check_cells(arguments, "--rankings", "--dataset", "--corrupt-table")
    rankings = read_tables(arguments.rankings, RANKING)
    run = load_run(arguments)
    parts = []
    for (name, operator), ranking in track(rankings.items(), len(rankings), "cells"):
        paths = arguments.dataset[name, operator], arguments.corrupt_table[name, operator]
        train = read_train(*paths, run.tokenizer, run.model.device)
        table = audit_cell(ranking, estimates_of(run, train), run.width, arguments.k)
        parts.append(table.assign(format=name, operator=operator))
    whole = pd.concat(parts, ignore_index=True)
    write_table(whole[list(AUDIT.columns)], arguments.output, AUDIT, run_provenance(arguments, run))
