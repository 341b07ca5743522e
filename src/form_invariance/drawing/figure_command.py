"""Figures: functions of STAGE/figure.py, by their names in its INPUTS."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.errors import UserError
from form_invariance.stage_folders import part_of
from form_invariance.tables.columns import Schema
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.lineage import OfAnyModel

Draw = Callable[[Mapping[str, pd.DataFrame], str, int], Figure]
"""Draws from one table for each input, the title, and the circuit size, for figures that show a single one."""


def figure_of(stage: str, name: str) -> tuple[Draw, dict[str, Schema]]:
    """The function that draws a figure, and its inputs.

    Raises:
        UserError: there is no such stage or figure.
    """
    module = import_module(f"form_invariance.{part_of(stage, 'figure')}")
    if name not in module.INPUTS:
        raise UserError(f"figure: {name!r} is not a figure of {stage}; it has {', '.join(module.INPUTS)}")
    return getattr(module, name), module.INPUTS[name]


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
