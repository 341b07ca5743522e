"""Run the pipeline on models that share a known part of their circuit, and compare it with what is found."""

import argparse

from form_invariance.stages.options import add_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "--seed", output="calibration table")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.calibration.compute import calibration_table
    from form_invariance.stages.calibration.table import CALIBRATION
    from form_invariance.tables.files import write_table

    write_table(calibration_table(arguments.seed), arguments.output, CALIBRATION, {"seed": arguments.seed})
