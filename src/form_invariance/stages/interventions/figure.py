"""Faithfulness under keep-only or knockout over circuit size (paper, Figures 4 and 5)."""

from collections.abc import Mapping
from itertools import product

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.interventions.table import TEMPLATE_MEANS, rows_of
from form_invariance.statistics import student_factor

CONTROLS = {
    "random": ("random neurons", style.GREY, "-"),
    "random_variance": ("random, equal variance", style.COLOURS[4], "--"),
    "random_effect": ("random, equal effect", style.COLOURS[3], ":"),
}

BESIDE = {
    "shared circuit, last token only": ({"positions": "last"}, style.COLOURS[1], (0, (1, 2))),
    "shared circuit, its template's means": ({"means": TEMPLATE_MEANS}, style.COLOURS[2], (0, (4, 1, 1, 1))),
}
"""The circuit otherwise: which rows, colour, line."""


def over_seeds(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean over the draws of a control by k, and its 95 % t interval (not a number below three draws)."""
    stats = rows.groupby("k")["faithfulness_ratio"].agg(["mean", "std", "count"])
    half = stats["count"].map(student_factor) * stats["std"] / stats["count"] ** 0.5
    return pd.DataFrame({"mean": stats["mean"], "low": stats["mean"] - half, "high": stats["mean"] + half})


def draw_faithfulness(axes: Axes, table: pd.DataFrame, intervention: str) -> None:
    """One panel: the circuit with its bootstrap interval, and the controls with theirs over draws."""
    rows = rows_of(table, intervention)
    for level in (0, 1):
        axes.axhline(level, color=style.LIGHT, lw=0.5)
    for kind, (label, colour, dashes) in CONTROLS.items():
        control = over_seeds(rows[rows["neurons"] == kind])
        axes.fill_between(control.index, control["low"], control["high"], color=colour, alpha=0.2, lw=0)
        axes.plot(control.index, control["mean"], color=colour, ls=dashes, label=label)
    circuit = rows[rows["neurons"] == "circuit"].sort_values("k")
    colour = style.COLOURS[0]
    axes.fill_between(circuit["k"], circuit["ratio_low"], circuit["ratio_high"], color=colour, alpha=0.25, lw=0)
    axes.plot(circuit["k"], circuit["faithfulness_ratio"], color=colour, marker="o", label="shared circuit")
    for label, (which, colour, line) in BESIDE.items():
        rows = rows_of(table, intervention, **which)
        own = rows[rows["neurons"] == "circuit"].sort_values("k")
        if len(own):
            axes.fill_between(own["k"], own["ratio_low"], own["ratio_high"], color=colour, alpha=0.15, lw=0)
            axes.plot(own["k"], own["faithfulness_ratio"], color=colour, ls=line, lw=1.4, label=label)


def draw(cells: Mapping[tuple[str, str], pd.DataFrame], intervention: str, title: str) -> Figure:
    """Rows are formats, columns operators; the cells are keyed (format, operator).

    Raises:
        UserError: a cell lacks.
    """
    formats = list(dict.fromkeys(name for name, _ in cells))
    operators = list(dict.fromkeys(operator for _, operator in cells))
    style.check_keys(cells, list(product(formats, operators)), "--tables")
    figure, grid = style.panels(len(formats), len(operators))
    for row, name in enumerate(formats):
        for column, operator in enumerate(operators):
            axes, table = grid[row, column], cells[name, operator]
            draw_faithfulness(axes, table, intervention)
            style.k_axis(axes, sorted(table["k"].unique()))
            if row == 0:
                axes.set_title(operator)
        grid[row, 0].set_ylabel(f"{name}\nfaithfulness")
    for axes in grid[-1]:
        axes.set_xlabel("neurons per layer, k")
    figure.suptitle(f"{title}: {intervention.replace('_', '-')}", fontsize=8)
    style.legend_below(figure, list(grid.flat))
    return figure
