"""Print the verdicts of one or several models."""

import argparse

from form_invariance.stages.options import add_keyed, add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--tables", "MODEL=FILE", "verdicts tables")
    add_options(parser, "--k")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.stages.summary.lines import verdict_lines
    from form_invariance.stages.summary.table import VERDICTS
    from form_invariance.tables.files import read_tables

    for model, table in read_tables(arguments.tables, VERDICTS).items():
        sizes = sorted(set(table["k"]))
        if arguments.k not in sizes:
            path, given = arguments.tables[model], ", ".join(map(str, sizes))
            raise UserError(f"--k: {path} has no verdicts at k = {arguments.k}; it has {given}")
        print(*verdict_lines(table, model, arguments.k), "", sep="\n")
