"""The figures of the stages: functions of STAGE/figure.py that return a figure."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import get_type_hints

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.errors import UserError
from form_invariance.stage_folders import part_of
from form_invariance.tables.columns import Schema

Draw = Callable[[Mapping[str, pd.DataFrame], str, int], Figure]
"""From one table for each input, the title, and the circuit size of figures that show one."""


def figure_of(stage: str, name: str) -> tuple[Draw, dict[str, Schema]]:
    """The function that draws a figure, and its inputs: public functions of STAGE/figure.py return a figure each.

    Raises:
        UserError: there is no such stage or figure.
    """
    module = import_module(f"form_invariance.{part_of(stage, 'figure')}")
    figures: dict[str, Draw] = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and getattr(value, "__module__", "") == module.__name__
        and get_type_hints(value).get("return") is Figure
    }
    if name not in figures:
        raise UserError(f"figure: {name!r} is not a figure of {stage}; it has {', '.join(figures)}")
    inputs: dict[str, Schema] = module.INPUTS[name]
    return figures[name], inputs
