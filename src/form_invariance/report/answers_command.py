"""The answers to the report's questions about one model."""

import argparse
from pathlib import Path

HELP = "answer the report's questions about one model from its tables"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--stages", nargs="+", required=True, help="stages whose questions are answered")
    parser.add_argument(
        "--tables",
        nargs="+",
        required=True,
        metavar="NAME/KEY=FILE",
        help="the tables that the answers need",
    )
    parser.add_argument("--k", type=int, required=True, help="circuit size that the sentences speak of")
    parser.add_argument("--output", type=Path, required=True, help="answers, as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    import re
    from importlib import import_module

    from form_invariance.stages.answers import write_answers
    from form_invariance.tables.inputs import read_inputs

    found = []
    for stage in arguments.stages:
        module = import_module(f"form_invariance.stages.{stage}.answer")
        own = [item for item in arguments.tables if re.split("[/=]", item)[0] in module.INPUTS]
        found += module.answer(read_inputs(own, module.INPUTS), arguments.k)
    write_answers(found, arguments.output)
