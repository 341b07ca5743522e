"""The report."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths, named_paths

HELP = "one HTML file: each question answered by a sentence, a figure and a table"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--answers", nargs="+", required=True, metavar="MODEL=FILE", help="answers of each model")
    parser.add_argument("--planted", type=Path, required=True, help="planted table")
    parser.add_argument(
        "--figures", nargs="+", required=True, metavar="MODEL/NAME=FILE", help="SVG of each model's figures"
    )
    parser.add_argument(
        "--compared", nargs="+", required=True, metavar="NAME=FILE", help="SVG of the figures of all models"
    )
    parser.add_argument("--paper-tables", nargs="+", required=True, metavar="NAME=FILE", help="CSV of each table")
    parser.add_argument("--benchmarks", type=Path, required=True, help="folder of the rules' benchmark files")
    parser.add_argument("--configuration", required=True, help="the run's configuration, for the record")
    parser.add_argument("--output", type=Path, required=True, help="HTML file")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.report.page import Files, render
    from form_invariance.stages.answers import read_answers
    from form_invariance.stages.planted import answer as planted
    from form_invariance.tables.files import write_atomically
    from form_invariance.tables.inputs import read_inputs

    answers = {model: read_answers(path) for model, path in named_paths(arguments.answers, "--answers").items()}
    truth = planted.answer(read_inputs([f"planted={arguments.planted}"], planted.INPUTS))
    files = Files(
        {(model, name): path for (model, name), path in keyed_paths(arguments.figures, "--figures", 2).items()},
        named_paths(arguments.compared, "--compared"),
        named_paths(arguments.paper_tables, "--paper-tables"),
        arguments.benchmarks,
    )
    page = render(answers, truth, files, arguments.configuration)
    write_atomically(arguments.output, lambda to: to.write_text(page, encoding="utf-8"))
