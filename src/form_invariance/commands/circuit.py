"""The shared circuit of one operator."""

import argparse
from pathlib import Path

from form_invariance.commands.arguments import add_effects_arguments, read_effects

HELP = "the shared circuit: neurons that are in every format's top-k"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_effects_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="circuit table")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.intersection import circuit_table
    from form_invariance.schemas.circuit import CIRCUIT
    from form_invariance.tables_io import write_table

    cells, models = read_effects(arguments)
    ks = sorted(set(arguments.k))
    write_table(circuit_table(cells, ks), arguments.output, CIRCUIT, {"models": models, "k": ks})
