"""Lines with their intervals, in one panel or in a grid of them.

A table of lines has the columns line (its name), value, low and high (NaN: no interval), a horizontal axis, and
columns that name the panel.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from form_invariance.drawing import style

SOLID, DASHED, DASH_DOT, DOTTED = "-", "--", "-.", ":"
_MORE_GAPS = (SOLID, DASHED, DASH_DOT, DOTTED)


@dataclass(frozen=True)
class Look:
    """What a line looks like. `label` is its text in the legend, if that is not the line's name."""

    colour: str
    marker: str = ""
    dashes: str = SOLID
    width: float = 1.2
    label: str = ""

    def arguments(self) -> dict[str, Any]:
        """Arguments for matplotlib, without the colour."""
        return {"marker": self.marker, "linestyle": self.dashes, "linewidth": self.width}


Looks = Mapping[str, Look]
"""Looks by line. Lines with gaps are drawn above solid ones and narrow above wide ones, so that both are seen
where they coincide. Of equals, the first line is on top."""


def looks_of(names: Sequence[str]) -> dict[str, Look]:
    """A fixed look for each name, in order: the same colour and marker in every figure."""
    colours, markers = style.colours(names), style.markers(names)
    return {name: Look(colours[name], markers[name]) for name in names}


def line(
    table: pd.DataFrame, name: str | pd.Series, value: str, low: str | None = None, high: str | None = None
) -> pd.DataFrame:
    """The rows of one line, or of several if `name` is a series.

    `value` is the column that is drawn, `low` and `high` are those of the interval's limits.
    """
    limits = {to: table[of] if of else math.nan for to, of in (("value", value), ("low", low), ("high", high))}
    return table.assign(line=name, **limits)


def spread(table: pd.DataFrame, by: list[str], name: str | pd.Series, value: str) -> pd.DataFrame:
    """The rows of one line: the mean of a column in each group, with the range as the interval."""
    groups = table.groupby(by, sort=False)[value].agg(value="mean", low="min", high="max")
    return groups.reset_index().assign(line=name)


def mean(table: pd.DataFrame, by: list[str], name: str, value: str) -> pd.DataFrame:
    """The rows of one line: the mean of a column in each group."""
    return line(table.groupby(by, sort=False)[value].mean().reset_index(), name, value)


def _in_order(table: pd.DataFrame, looks: Looks) -> list[str]:
    """The lines of a table in the order in which they are drawn."""
    names = reversed([name for name in looks if name in set(table["line"])])
    return sorted(names, key=lambda name: (_MORE_GAPS.index(looks[name].dashes), -looks[name].width))


def _draw(table: pd.DataFrame, axes: Axes, x: str, looks: Looks) -> None:
    defined = table.dropna(subset="value").sort_values(x, kind="stable")
    by_line = {name: defined[defined["line"] == name] for name in _in_order(defined, looks)}
    for name, rows in by_line.items():
        look = looks[name]
        axes.fill_between(rows[x], rows["low"], rows["high"], color=look.colour, alpha=0.2, lw=0)
        axes.plot(rows[x], rows["value"], color=look.colour, label=name, **look.arguments())
    for name, rows in by_line.items():
        if len(rows) == 1:
            _draw_point(rows, axes, x, looks[name])


def _draw_point(row: pd.DataFrame, axes: Axes, x: str, look: Look) -> None:
    """Draw a line of one point. Without a marker it would be invisible, and so would its band."""
    if row[["low", "high"]].notna().all(axis=None):
        axes.vlines(row[x], row["low"], row["high"], color=look.colour, lw=look.width)
    if not look.marker:
        axes.scatter(row[x], row["value"], s=5, color=look.colour)


def line_plot(axes: Axes, table: pd.DataFrame, looks: Looks) -> None:
    """Draw the lines into one panel, by circuit size."""
    _draw(table, axes, "k", looks)
    size_axis(axes, table["k"].unique().tolist())


def line_grid(
    table: pd.DataFrame,
    x: str,
    looks: Looks,
    title: str,
    *,
    ylabel: str = "",
    row: str | None = None,
    col: str,
    col_wrap: int | None = None,
    height: float = 1.55,
    others: Looks | None = None,
) -> sns.FacetGrid:
    """Small multiples of the lines with one legend.

    Args:
        x: the column of the horizontal axis, and its name; "k" are circuit sizes.
        ylabel: name of the vertical axis, after that of the row.
        row: the column of the table whose values are the rows of panels.
        col: the column whose values are the columns of panels.
        col_wrap: panels in a row, at most, where there is no `row`.
        height: inches of a row.
        others: further entries of the legend.
    """
    names = _in_order(table, looks)
    grid = style.PanelGrid(
        table,
        row=row,
        col=col,
        # In the table's order; seaborn would sort numbers.
        row_order=table[row].unique() if row else None,
        col_order=table[col].unique(),
        col_wrap=col_wrap and min(col_wrap, table[col].nunique()),
        ylim=(-0.03, 1.03),
    )
    # The panels share their axes, so each line would compute the limits of all panels anew.
    for axes in grid.axes.flat:
        axes.set_autoscalex_on(False)
    for (row_place, col_place, _), data in grid.facet_data():
        _draw(data, grid.facet_axis(row_place, col_place, modify_state=False), x, looks)
    grid.axes.flat[0].autoscale(axis="x")
    grid.set_titles("").set_axis_labels("neurons per layer, k" if x == "k" else x, ylabel)
    # Names only above the first row and before the first column; seaborn would repeat them in every panel.
    for axes, name in zip(grid.axes.flat, grid.col_names, strict=False):
        axes.set_title(name)
    for axes, name in zip(grid.axes[:, 0] if row else (), grid.row_names, strict=False):
        axes.set_ylabel(f"{name}\n{ylabel}".strip())
    drawn = {name: look for name, look in looks.items() if name in names}
    style.finish(grid, title, height, legend_handles({**drawn, **(others or {})}))
    if x == "k":
        size_axis(grid.axes.flat[0], table[x].unique().tolist())
    else:
        grid.axes.flat[0].xaxis.get_major_locator().set_params(integer=True)
    return grid


def legend_handles(looks: Looks) -> list[Line2D]:
    """A piece of each line for the legend, each label once."""
    handles: dict[str, Line2D] = {}
    for name, look in looks.items():
        label = look.label or name
        handles.setdefault(label, Line2D([], [], color=look.colour, label=label, **look.arguments()))
    return list(handles.values())


_DIGIT = 0.062
"""Width in inches of a digit of a label."""


def size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Make an axis logarithmic, with a tick for each circuit size, labelled where there is room.

    matplotlib would label all of these ticks or none.
    """
    specification, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    assert specification is not None
    assert figure is not None
    # A column of panels leaves a fifth of its width to ticks and padding.
    width = 0.8 * figure.get_figwidth() / specification.get_gridspec().ncols
    inches = width / (math.log(max(sizes) / min(sizes)) or 1.0)
    labelled = [max(sizes)]
    for size in sorted(sizes)[-2::-1]:
        digits = len(str(size)) + len(str(labelled[-1])) + 1
        if inches * math.log(labelled[-1] / size) >= _DIGIT * digits / 2:
            labelled.append(size)
    axes.set_xscale("log")
    if not 0 < axes.dataLim.width < math.inf:
        # If nothing is drawn, matplotlib has no data to find limits from.
        axes.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
    axes.set_xticks(sizes, [str(size) if size in labelled else "" for size in sizes])
    axes.minorticks_off()
