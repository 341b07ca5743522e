"""Recovery by cross-format transfer over circuit size, all directions (paper, Figures 6 and 7)."""

from collections.abc import Mapping
from itertools import product

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style

CONDITIONS = {
    "matched": ("matched donor", style.COLOURS[0], "o-"),
    "same_answer": ("other operands, equal answer", style.COLOURS[2], "^--"),
    "mismatched": ("mismatched donor", style.COLOURS[1], "s-"),
    "same_format": ("donor of the target's format", style.COLOURS[4], "D--"),
    "random": ("random neurons", style.GREY, "-"),
    "harm_matched": ("harm: right pairs turned wrong", style.COLOURS[3], "x:"),
    "harm_random": ("harm of random neurons", style.LIGHT, ":"),
}


def draw_recovery(axes: Axes, table: pd.DataFrame, conditions: Mapping[str, tuple[str, str, str]]) -> None:
    """One panel: recovered fraction by condition with its Wilson interval, and the number of pairs.

    Args:
        conditions: label, colour, and marker and line of each.
    """
    for condition, (label, colour, line) in conditions.items():
        rows = table[table["condition"] == condition].sort_values("k")
        axes.fill_between(rows["k"], rows["low"], rows["high"], color=colour, alpha=0.15, lw=0)
        axes.plot(rows["k"], rows["recovered"], line, color=colour, ms=2.5, label=label)
    pairs = table.groupby("condition")["pairs"].max()
    shown = f"n = {pairs['matched']}" if pairs.get("matched", 0) else "no pairs"
    if pairs.get("harm_matched", 0):
        shown += f", harm n = {pairs['harm_matched']}"
    axes.text(0.03, 1.0, shown, transform=axes.transAxes, va="bottom", fontsize=6)


def draw(tables: Mapping[tuple[str, str], pd.DataFrame], title: str) -> Figure:
    """Rows are directions, columns operators; the tables are keyed (operator, direction).

    Raises:
        UserError: a direction of an operator lacks.
    """
    operators = list(dict.fromkeys(operator for operator, _ in tables))
    directions = list(dict.fromkeys(direction for _, direction in tables))
    style.check_keys(tables, list(product(operators, directions)), "--tables")
    figure, grid = style.panels(len(directions), len(operators), height=1.25)
    for row, direction in enumerate(directions):
        for column, operator in enumerate(operators):
            axes, table = grid[row, column], tables[operator, direction]
            draw_recovery(axes, table, CONDITIONS)
            style.k_axis(axes, sorted(table["k"].unique()))
            if row == 0:
                axes.set_title(operator, pad=12)
        grid[row, 0].set_ylabel(direction.replace("_to_", "\nto "))
    grid[0, 0].set_ylim(-0.03, 1.03)
    for axes in grid[-1]:
        axes.set_xlabel("neurons per layer, k")
    figure.suptitle(f"{title}: fraction of wrong answers that the donor's neurons make right", fontsize=8)
    style.legend_below(figure, list(grid.flat))
    return figure
