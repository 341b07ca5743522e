"""The report."""

import argparse
from pathlib import Path

HELP = "one HTML file: each question answered by a sentence, a figure and a table"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of the finished run")
    parser.add_argument("--models", nargs="+", required=True, help="names of the models")
    parser.add_argument("--formats", nargs="+", required=True, help="names of the formats")
    parser.add_argument("--operators", nargs="+", required=True, help="names of the operators")
    parser.add_argument("--k", type=int, required=True, help="circuit size that the sentences speak of")
    parser.add_argument(
        "--stages", nargs="+", default=[], choices=("heads", "dose"), help="optional stages that ran"
    )
    parser.add_argument(
        "--variant-operators", nargs="+", default=[], help="operators whose paraphrases were measured"
    )
    parser.add_argument("--audited", nargs="+", default=[], help="models whose every late neuron was patched")
    parser.add_argument("--configuration", default="", help="the run's configuration, for the record")
    parser.add_argument("--output", type=Path, required=True, help="HTML file")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.report.answers import answers
    from form_invariance.report.beyond import ground_truth
    from form_invariance.report.page import render
    from form_invariance.stages.answers import Results
    from form_invariance.tables.files import write_atomically

    found = {}
    for model in arguments.models:
        audit = ["audit"] if model in arguments.audited else []
        results = Results(
            arguments.results / model,
            arguments.formats,
            arguments.operators,
            arguments.k,
            stages=frozenset([*arguments.stages, *audit]),
            variant_operators=tuple(arguments.variant_operators),
        )
        found[model] = answers(results)
    truth = ground_truth(arguments.results / "planted.parquet")
    page = render(found, truth, arguments.results, arguments.configuration)
    write_atomically(arguments.output, lambda to: to.write_text(page, encoding="utf-8"))
