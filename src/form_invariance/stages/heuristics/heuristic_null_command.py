"""Draw the random smooth maps of a grid, which strict labels are compared with."""

import argparse

from form_invariance.stages.heuristics.grid_options import add_grid_arguments, grid_of
from form_invariance.stages.heuristics.names import NULL_SETTINGS
from form_invariance.stages.options import add_options, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_grid_arguments(parser)
    add_options(parser, "--seed", output="random maps of the grid, as safetensors")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.stages.heuristics import null
    from form_invariance.tables.files import write_tensors

    drawn = null.make_null(grid_of(arguments), arguments.seed)
    provenance = settings(arguments, *NULL_SETTINGS)
    write_tensors(null.to_arrays(drawn), arguments.output, null.KIND, provenance)
