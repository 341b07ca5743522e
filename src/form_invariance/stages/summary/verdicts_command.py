"""Print the verdicts of one or several models."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tables", type=Path, nargs="+", metavar="FILE", help="verdicts tables")
    parser.add_argument("--k", type=int, help="circuit size; by default the run's k_shown")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.stages.summary.lines import verdict_lines
    from form_invariance.stages.summary.table import VERDICTS
    from form_invariance.tables.files import provenance_of, read_tables
    from form_invariance.tables.keys import by_key

    paths = by_key(arguments.tables, "model")
    for model, table in read_tables(paths, VERDICTS).items():
        path = paths[model]
        k: int = arguments.k or provenance_of(path).get("k_shown", 0)
        sizes = sorted(set(table["k"]))
        if k not in sizes:
            raise UserError(f"--k: {path} has no verdicts at k = {k}; it has {', '.join(map(str, sizes))}")
        print(*verdict_lines(table, model, k), "", sep="\n")
