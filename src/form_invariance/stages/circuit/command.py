"""The shared circuit of one operator."""

import argparse
from pathlib import Path

from form_invariance.stages.options import add_effects_arguments, read_effects

HELP = "the shared circuit: neurons that are in every format's top-k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_effects_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="circuit table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.overlap.compute import circuit_table
    from form_invariance.tables.files import write_table

    cells, models = read_effects(arguments)
    ks = sorted(set(arguments.k))
    write_table(circuit_table(cells, ks), arguments.output, CIRCUIT, {"models": models, "k": ks})
