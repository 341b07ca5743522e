"""Write the report, one HTML file: each question answered by a sentence, a figure and a table."""

import argparse
import json

from form_invariance.stages.options import add_files, add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--answers", "answers of each model")
    add_files(parser, "--figures", "MODEL/NAME.svg of each model's figures")
    add_files(parser, "--compared", "SVG of the figures of all models")
    parser.add_argument("--captions", type=json.loads, default={}, help="captions by figure, as JSON")
    add_files(parser, "--paper-tables", "CSV of each table", required=False)
    add_files(parser, "--browsers", "MODEL.html of the models that have a neuron browser", required=False)
    add_options(parser, benchmarks="folder of the rules' benchmark files", output="HTML file")
    parser.add_argument("--configuration", required=True, help="the run's configuration, for the record")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.report.page import Files, render
    from form_invariance.stages.answers import read_answers
    from form_invariance.tables.files import write_text

    answers = dict(map(read_answers, arguments.answers))
    figures = {(path.parent.name, path.stem): path for path in arguments.figures}
    files = Files(figures, arguments.compared, arguments.paper_tables, arguments.benchmarks)
    browsers = [path.stem for path in arguments.browsers]
    page = render(answers, files, arguments.captions, arguments.configuration, browsers)
    write_text(arguments.output, page)
