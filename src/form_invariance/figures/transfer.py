"""Recovery by cross-format transfer over circuit size, all directions (paper, Figures 6 and 7)."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.figures import style

CONDITIONS = {
    "matched": ("matched donor", style.COLOURS[0], "-"),
    "same_answer": ("other operands, equal answer", style.COLOURS[2], "--"),
    "mismatched": ("mismatched donor", style.COLOURS[1], "-"),
    "same_format": ("donor of the target's format", style.COLOURS[4], "--"),
    "random": ("random neurons", style.GREY, "-"),
    "harm_matched": ("right pairs turned wrong", style.COLOURS[3], ":"),
}


def draw_recovery(axes: Axes, table: pd.DataFrame, conditions: Mapping[str, tuple[str, str, str]]) -> None:
    """One panel: recovered fraction by condition with its Wilson interval, and the number of pairs."""
    for condition, (label, colour, line) in conditions.items():
        rows = table[table["condition"] == condition].sort_values("k")
        axes.fill_between(rows["k"], rows["low"], rows["high"], color=colour, alpha=0.15, lw=0)
        axes.plot(rows["k"], rows["recovered"], color=colour, ls=line, label=label)
    matched = table.loc[table["condition"] == "matched", "pairs"]
    pairs = int(matched.iloc[0]) if len(matched) else 0
    axes.text(0.03, 0.97, f"n = {pairs}" if pairs else "no pairs", transform=axes.transAxes, va="top", fontsize=6)


def draw(tables: Mapping[tuple[str, str], pd.DataFrame], title: str) -> Figure:
    """Rows are directions, columns operators; the tables are keyed (operator, direction)."""
    operators = list(dict.fromkeys(operator for operator, _ in tables))
    directions = list(dict.fromkeys(direction for _, direction in tables))
    figure, grid = style.panels(len(directions), len(operators), height=1.2)
    for row, direction in enumerate(directions):
        for column, operator in enumerate(operators):
            axes, table = grid[row, column], tables[operator, direction]
            draw_recovery(axes, table, CONDITIONS)
            style.k_axis(axes, sorted(table["k"].unique()))
            if row == 0:
                axes.set_title(operator)
        grid[row, 0].set_ylabel(direction.replace("_to_", "\nto "))
    grid[0, 0].set_ylim(-0.03, 1.03)
    for axes in grid[-1]:
        axes.set_xlabel("neurons per layer, k")
    figure.suptitle(f"{title}: fraction of wrong answers that the donor's neurons make right", fontsize=8)
    style.legend_below(figure, list(grid.flat), 3)
    return figure
