"""Check a model's files, and record their digests, by which its jobs know it again."""

import argparse

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="embedded:NAME, a Hugging Face folder, or a hub id")
    parser.add_argument("--revision", help="hub branch, tag or commit")
    add_options(parser, output="table of the files")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.model import loading as models
    from form_invariance.model.digests import MODEL_FILES, record
    from form_invariance.model.files import resolve
    from form_invariance.tables.files import write_table

    folder = resolve(arguments.model, arguments.revision)
    models.check(folder)
    table = record(folder)
    provenance = {"model": arguments.model, "revision": arguments.revision}
    write_table(table, arguments.output, MODEL_FILES, provenance)
