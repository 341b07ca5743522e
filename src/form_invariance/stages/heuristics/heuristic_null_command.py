"""Random maps for the heuristics."""

from pathlib import Path

from form_invariance.experiment.options import Seed, recorded
from form_invariance.stages.heuristics import null
from form_invariance.stages.heuristics.pairs import GridOptions, grid_of
from form_invariance.tables.files import write_tensors


def heuristic_null(*, grid: GridOptions, seed: Seed, output: Path) -> None:
    """Draw the random smooth maps of a grid, which strict labels are compared with.

    Args:
        output: random maps of the grid, as safetensors
    """
    settings = recorded(locals())

    write_tensors(null.to_arrays(null.make_null(grid_of(grid), seed)), output, null.KIND, settings)
