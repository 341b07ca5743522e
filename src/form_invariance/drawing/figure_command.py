"""Figures."""

from pathlib import Path
from typing import Annotated

from form_invariance.drawing import style
from form_invariance.drawing.figures import figure_of
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.lineage import OfAnyModel


def figure(
    stage: str,
    name: str,
    /,
    *,
    tables: Annotated[tuple[Path, ...], OfAnyModel],
    title: str,
    k: int,
    output: tuple[Path, ...],
) -> None:
    """Draw a figure of a stage from its tables.

    Args:
        stage: a stage with figures, for instance overlap
        name: the figure's name, for instance overlap
        tables: its tables, in any order
        title: heading of the figure
        k: circuit size, for figures that show a single one
        output: files, .png .svg or .pdf
    """
    draw, inputs = figure_of(stage, name)
    input_tables = read_inputs(input_paths(tables, inputs, "this figure needs"), inputs)
    style.save(draw(input_tables, title, k), output)
