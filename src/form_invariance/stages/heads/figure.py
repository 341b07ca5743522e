"""The formats' best attention heads: how far they overlap, and which they are."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from form_invariance.drawing import style
from form_invariance.drawing.lines import DASHED, DOTTED, Look, legend_handles, line, line_plot
from form_invariance.stages.groups import of_all_formats
from form_invariance.stages.heads.overlap_table import ALL, HEAD_OVERLAP, ROUTING, middle_size
from form_invariance.stages.heads.table import HEADS
from form_invariance.tables.inputs import Input

INPUTS = {"heads": Input(HEADS, ("format", "operator")), "head_overlap": Input(HEAD_OVERLAP, ("operator",))}

_SMALLEST = 1e-3
"""Smaller and negative effects have the colour of this one."""
# Where the two scopes agree, the wide line shows on both sides of the narrow one.
_SCOPES = {
    ROUTING: Look(style.COLOURS[1], "s", width=1.0, label="Jaccard, heads below the late layers"),
    ALL: Look(style.COLOURS[0], "o", width=2.0, label="Jaccard, heads of all layers"),
}
_KEYS = {
    "between halves of one format's prompts": Look(style.GREY, dashes=DASHED, width=0.7),
    "chance": Look(style.GREY, dashes=DOTTED, width=0.9),
}
_MARKS = {"among the best in every format": "o", "in this format, not in every": "X"}


def heads(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """A row for each operator: the overlap by number of heads, and a map of the heads for each format."""
    h = middle_size(tables["head_overlap"])
    table = _marked(tables["heads"], h)
    formats, operators = (table[column].unique() for column in ("format", "operator"))
    norm = LogNorm(_SMALLEST, max(table["ie_mean"].max(), 10 * _SMALLEST))
    widths = [1.3, *[1.0] * len(formats)]
    figure, grid = style.panels(len(operators), len(widths), height=1.2, widths=widths)
    for row, operator in zip(grid, operators, strict=True):
        overlap = tables["head_overlap"][tables["head_overlap"]["operator"] == operator]
        _draw_overlap(row[0], of_all_formats(overlap))
        row[0].set_ylabel(f"{operator}\nJaccard")
        ranked = overlap.loc[overlap["layers"] == ROUTING, "ranked"]
        for axes, name in zip(row[1:], formats, strict=True):
            cell = table[(table["operator"] == operator) & (table["format"] == name)]
            _draw_map(axes, cell, norm)
            if len(ranked):
                axes.axhline(ranked.iloc[0] / cell["head"].nunique(), color="white", lw=0.8, ls="--")
        row[1].set_ylabel("layer")
    for axes, label in zip(grid[-1], ["heads, h", *["head"] * len(formats)], strict=True):
        axes.set_xlabel(label)
    for axes, name in zip(grid[0, 1:], formats, strict=True):
        axes.set_title(name)
    effects = grid[0, 1].collections[0]
    figure.colorbar(effects, ax=grid[:, -1], label="mean indirect effect", fraction=0.08, aspect=50)
    figure.suptitle(f"{title}: the best {h} heads of all layers are marked")
    marks = [
        Line2D([], [], ls="", marker=marker, color="white", mec="black", mew=0.5, ms=4.5, label=label)
        for label, marker in _MARKS.items()
    ]
    style.legend_below(figure, [*legend_handles({**_SCOPES, **_KEYS}), *marks])
    return figure


def _marked(table: pd.DataFrame, h: int) -> pd.DataFrame:
    """The table with a column `mark`: whether a head is among the best h of every format, or of this one."""
    everywhere = table.groupby(["operator", "layer", "head"])["rank"].transform("max") <= h
    every, this = _MARKS
    return table.assign(mark=table["rank"].le(h).map({True: this, False: ""}).mask(everywhere, every))


def _draw_overlap(axes: Axes, every: pd.DataFrame) -> None:
    """One panel: Jaccard of all formats by number of heads, with interval, chance and ceiling."""
    scopes = every["layers"]
    lines = [
        line(every, scopes, "jaccard", "low", "high"),
        line(every, scopes + " ceiling", "ceiling"),
        line(every, scopes + " chance", "chance"),
    ]
    looks = dict(_SCOPES)
    for scope, look in _SCOPES.items():
        looks[f"{scope} ceiling"] = Look(look.colour, dashes=DASHED, width=0.7)
        looks[f"{scope} chance"] = Look(look.colour, dashes=DOTTED, width=0.9)
    line_plot(axes, pd.concat(lines), "h", looks)
    axes.set_ylim(-0.03, 1.05)


def _draw_map(axes: Axes, table: pd.DataFrame, norm: LogNorm) -> None:
    """One panel: mean effect by layer and head, and the marks."""
    effects = table.pivot(index="layer", columns="head", values="ie_mean").clip(_SMALLEST)
    layers, per_layer = effects.shape
    steps = {"xticklabels": max(1, per_layer // 4), "yticklabels": max(1, layers // 4)}
    sns.heatmap(effects, ax=axes, norm=norm, cmap="viridis", cbar=False, rasterized=True, **steps)
    axes.invert_yaxis()
    size = min(4.0, 40 / max(effects.shape))
    for mark, marker in _MARKS.items():
        rows = table[table["mark"] == mark]
        look: dict[str, Any] = {"marker": marker, "markersize": size, "color": "white", "mec": "black", "mew": 0.5}
        axes.plot(rows["head"] + 0.5, rows["layer"] + 0.5, ls="", **look)
    axes.tick_params(rotation=0)
    axes.set(xlabel="", ylabel="")
