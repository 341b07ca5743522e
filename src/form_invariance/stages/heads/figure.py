"""The formats' best attention heads: how far they overlap, and which they are."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.head_overlap.compute import ALL, ROUTING, middle_size, of_all_formats

_SMALLEST = 1e-3
"""Smaller and negative effects have the colour of this one."""
# Where the two agree, the wide line shows on both sides of the narrow one.
_SCOPES = {
    ALL: ("Jaccard, heads of all layers", style.COLOURS[0], "o", 2.0),
    ROUTING: ("Jaccard, heads below the late layers", style.COLOURS[1], "s", 1.0),
}
_CROSS: dict[str, Any] = {"ls": "none", "marker": "x", "mew": 0.8}
_DOT: dict[str, Any] = {"ls": "none", "marker": "o", "mfc": "white", "mec": "black", "mew": 0.5}


def _draw_overlap(axes: Axes, overlap: pd.DataFrame) -> None:
    """One panel: Jaccard of all formats by number of heads, with interval, chance and ceiling."""
    every = of_all_formats(overlap)
    for scope, (label, colour, marker, width) in _SCOPES.items():
        own = every[every["layers"] == scope].sort_values("h")
        axes.fill_between(own["h"], own["low"], own["high"], color=colour, alpha=0.2, lw=0)
        axes.plot(own["h"], own["jaccard"], color=colour, marker=marker, lw=width, label=label)
        axes.plot(own["h"], own["ceiling"], color=colour, ls="--", lw=0.7)
        axes.plot(own["h"], own["chance"], color=colour, ls=":", lw=0.9)
    axes.set_ylim(-0.03, 1.05)
    style.k_axis(axes, sorted(every["h"].unique()))


def _grid(table: pd.DataFrame, column: str) -> np.ndarray:
    """A column of a heads table as (L, H)."""
    return table.pivot(index="layer", columns="head", values=column).to_numpy()


def _draw_map(axes: Axes, table: pd.DataFrame, best: np.ndarray, shared: np.ndarray, norm: LogNorm) -> None:
    """One panel: mean effect by layer and head; `best` and `shared` (L, H) say which heads are marked."""
    effects = _grid(table, "ie_mean").clip(_SMALLEST)
    axes.imshow(effects, norm=norm, cmap="viridis", aspect="auto", origin="lower")
    size = min(4.0, 40 / max(effects.shape))
    for marked, look in ((shared, _DOT), (best & ~shared, {**_CROSS, "color": "white"})):
        layer, head = np.nonzero(marked)
        axes.plot(head, layer, ms=size, **look)
    for axis, count in ((axes.xaxis, effects.shape[1]), (axes.yaxis, effects.shape[0])):
        axis.set_ticks(np.arange(0, count, max(1, count // 4)))


def _add_keys(axes: Axes) -> None:
    """What the legend says of lines and marks that have no one colour."""
    axes.plot([], [], color=style.GREY, ls="--", lw=0.7, label="between halves of one format's prompts")
    axes.plot([], [], color=style.GREY, ls=":", lw=0.9, label="chance")
    axes.plot([], [], **_DOT, label="among the best in every format")
    axes.plot([], [], **_CROSS, color=style.GREY, label="in this format, not in every")


def draw(
    tables: Mapping[tuple[str, str], pd.DataFrame], overlaps: Mapping[str, pd.DataFrame], title: str
) -> Figure:
    """A row for each operator: the overlap by number of heads, and a map of the heads for each format.

    Args:
        tables: heads table of each (format, operator).
        overlaps: head overlap table of each operator.

    Raises:
        UserError: a table lacks.
    """
    formats = list(dict.fromkeys(name for name, _ in tables))
    style.check_keys(tables, list(product(formats, overlaps)), "--heads")
    largest = max(table["ie_mean"].max() for table in tables.values())
    norm = LogNorm(_SMALLEST, max(largest, 10 * _SMALLEST))
    widths = [1.3, *[1.0] * len(formats)]
    figure, grid = style.panels(len(overlaps), len(widths), height=1.2, widths=widths, shared=False)
    for row, (operator, overlap) in zip(grid, overlaps.items(), strict=True):
        h = middle_size(overlap)
        _draw_overlap(row[0], overlap)
        row[0].set_ylabel(f"{operator}\nJaccard")
        best = {name: _grid(tables[name, operator], "rank") <= h for name in formats}
        shared = np.logical_and.reduce(list(best.values()))
        routing = overlap.loc[overlap["layers"] == ROUTING, "ranked"]
        for axes, name in zip(row[1:], formats, strict=True):
            _draw_map(axes, tables[name, operator], best[name], shared, norm)
            if len(routing):
                axes.axhline(routing.iloc[0] / shared.shape[1] - 0.5, color="white", lw=0.8, ls="--")
        row[1].set_ylabel("layer")
    for axes, name in zip(grid[0, 1:], formats, strict=True):
        axes.set_title(name)
    for axes, label in zip(grid[-1], ["heads, h", *["head"] * len(formats)], strict=True):
        axes.set_xlabel(label)
    figure.colorbar(grid[0, 1].images[0], ax=grid[:, -1], label="mean indirect effect", fraction=0.08, aspect=50)
    figure.suptitle(f"{title}: the best {h} heads of all layers are marked", fontsize=8)
    _add_keys(grid[0, 0])
    style.legend_below(figure, [grid[0, 0]])
    return figure
