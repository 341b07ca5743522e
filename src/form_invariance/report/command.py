"""Write the report, one HTML file: each question answered by a sentence, a figure and a table."""

import argparse

from form_invariance.stages.options import add_keyed, add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--answers", "MODEL=FILE", "answers of each model")
    add_keyed(parser, "--figures", "MODEL/NAME=FILE", "SVG of each model's figures")
    add_keyed(parser, "--compared", "NAME=FILE", "SVG of the figures of all models")
    add_keyed(parser, "--captions", "NAME=TEXT", "captions of figures", required=False)
    add_keyed(parser, "--paper-tables", "NAME=FILE", "CSV of each table", required=False)
    add_keyed(parser, "--browsers", "MODEL=FILE", "neuron browsers of the models that have one", required=False)
    add_options(parser, benchmarks="folder of the rules' benchmark files", output="HTML file")
    parser.add_argument("--configuration", required=True, help="the run's configuration, for the record")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.report.page import Files, render
    from form_invariance.stages.answers import read_answers
    from form_invariance.tables.files import write_text

    answers = {model: read_answers(path) for model, path in arguments.answers.items()}
    files = Files(arguments.figures, arguments.compared, arguments.paper_tables, arguments.benchmarks)
    page = render(answers, files, arguments.captions, arguments.configuration, list(arguments.browsers))
    write_text(arguments.output, page)
