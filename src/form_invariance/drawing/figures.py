"""The figures of the stages: functions of STAGE/figure.py, by their names in its INPUTS."""

from collections.abc import Callable, Mapping
from importlib import import_module

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.errors import UserError
from form_invariance.stage_folders import part_of
from form_invariance.tables.columns import Schema

Draw = Callable[[Mapping[str, pd.DataFrame], str, int], Figure]
"""From one table for each input, the title, and the circuit size of figures that show one."""


def figure_of(stage: str, name: str) -> tuple[Draw, dict[str, Schema]]:
    """The function of STAGE/figure.py that draws a figure, and its inputs.

    Raises:
        UserError: there is no such stage or figure.
    """
    module = import_module(f"form_invariance.{part_of(stage, 'figure')}")
    if name not in module.INPUTS:
        raise UserError(f"figure: {name!r} is not a figure of {stage}; it has {', '.join(module.INPUTS)}")
    return getattr(module, name), module.INPUTS[name]
