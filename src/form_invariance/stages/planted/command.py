"""Run the pipeline on models whose circuit was built by hand, and say what it finds of it."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--seed", output="planted table")


def run(arguments: argparse.Namespace) -> None:
    import tempfile

    import pandas as pd

    from form_invariance.stages.planted.construction import planted_neurons, write_model
    from form_invariance.stages.planted.pipeline import run_stages
    from form_invariance.stages.planted.scores import score
    from form_invariance.stages.planted.table import PLANTED
    from form_invariance.tables.files import write_table

    tables = []
    for shared in (True, False):
        with tempfile.TemporaryDirectory(prefix="constructed-") as name:
            model = Path(name) / "model"
            write_model(model, shared, arguments.seed)
            results = run_stages(model, arguments.seed)
        tables.append(score(results, planted_neurons(shared, arguments.seed), shared))
    write_table(pd.concat(tables), arguments.output, PLANTED, {"seed": arguments.seed})
