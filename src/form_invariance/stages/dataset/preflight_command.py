"""Check that every cell of a model has enough right answers, before anything expensive runs."""

import argparse

from form_invariance.stages.options import add_files, add_options, add_required, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--census", "census table of every cell")
    add_required(
        parser, int, train="train prompts", eval="eval prompts", corrupt_seeds="draws of corrupt partners"
    )
    parser.add_argument(
        "--corrupt", required=True, choices=("within_operator", "across_operators"), help="partners"
    )
    add_options(parser, "--seed", output="preflight table")


def run(arguments: argparse.Namespace) -> None:
    import sys

    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.dataset.compute import Choice
    from form_invariance.stages.dataset.preflight import check, check_left, preflight_table
    from form_invariance.stages.dataset.table import PREFLIGHT
    from form_invariance.tables.files import provenance_of, read_table, write_table
    from form_invariance.tables.keys import by_cell, common_keys

    censuses = {
        cell: (read_table(path, CENSUS), provenance_of(path)["template"])
        for cell, path in by_cell(arguments.census).items()
    }
    choice = Choice(arguments.train, arguments.eval, arguments.corrupt_seeds, arguments.seed)
    across = arguments.corrupt == "across_operators"
    table = preflight_table(censuses, choice, across)
    print(table.drop(columns="reason").to_string(index=False), file=sys.stderr)
    check(table, choice)
    check_left(censuses, choice, across)
    provenance = settings(arguments, "train", "eval", "corrupt_seeds", "seed")
    write_table(table, arguments.output, PREFLIGHT, provenance, common_keys(*arguments.census))
