"""Parts of the formats' disagreement: format, wording, partners, prompts; and the corrected correlation."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from form_invariance.drawing import style
from form_invariance.stages.disagreement.table import ALL, DISAGREEMENT, FORMAT_CORRELATION, pooled, wide
from form_invariance.tables.inputs import Input

INPUTS = {"disagreement": Input(DISAGREEMENT), "format_correlation": Input(FORMAT_CORRELATION)}

PARTS = {
    "format": (style.COLOURS[0], ""),
    "format and wording": (style.COLOURS[0], "/////"),
    "wording": (style.COLOURS[5], ""),
    "pairing with partners": (style.COLOURS[4], "....."),
    "prompts": (style.LIGHT, ""),
}
"""Colour and hatch of each part of a bar, from left to right."""


def parts_of(shares: pd.DataFrame) -> pd.DataFrame:
    """Shares as they are drawn: negative estimates are 0, and the parts of a bar add up to 1.

    Args:
        shares: operators in rows, components in columns.

    Returns:
        Operators in rows, `PARTS` in columns; NaN where the total is not positive.
    """
    separate = shares["wording"].notna()
    drawn = pd.DataFrame(
        {
            "format": shares["format"].where(separate, 0),
            "format and wording": shares["template"].mask(separate, 0),
            "wording": shares["wording"].where(separate, 0),
            "pairing with partners": shares["draw"].fillna(0),
            "prompts": shares["prompt"],
        }
    ).clip(lower=0)
    return drawn.div(drawn.sum(axis=1), axis=0).where(shares["total"].notna())


def disagreement(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """A row for each operator: the parts of the disagreement, and the correlation of every two formats."""
    table, related = tables["disagreement"], pooled(tables["format_correlation"])
    operators = [name for name in table["operator"].unique() if name != ALL]
    formats = [name for name in related["formats"].unique() if name != ALL]
    height = 0.5 + max(0.3, 0.09 * len(formats)) * len(operators)
    figure, ((left, right),) = style.panels(1, 2, height=height, widths=[1.25, 1])
    shares = wide(table, "share").loc[operators]
    _draw_parts(left, parts_of(shares), shares["scale"].clip(upper=shares["template"]))
    _draw_correlations(right, related[related["formats"] != ALL], operators, formats)
    left.set_yticks(range(len(operators)), operators)
    right.set_yticks(range(len(operators)), [""] * len(operators))
    for axes in (left, right):
        axes.set_ylim(len(operators) - 0.5, -0.5)
    figure.suptitle(f"{title}: what the formats' disagreement is made of")
    colours, markers = style.colours(formats), style.markers(formats)
    handles: list[Artist] = [
        Patch(fc=colour, hatch=hatch, lw=0, label=name) for name, (colour, hatch) in PARTS.items()
    ]
    handles.append(Line2D([], [], ls="", marker="|", color="black", ms=5, mew=1.2, label="difference of scale"))
    given: dict[str, Any] = {"ls": "", "markersize": 3.8}
    handles += [Line2D([], [], color=colours[f], marker=markers[f], label=f, **given) for f in formats]
    hollow: dict[str, Any] = {"marker": "o", "color": style.GREY, "markerfacecolor": "white", "mew": 0.7}
    handles.append(Line2D([], [], label="not corrected", **hollow, **given))
    style.legend_below(figure, handles)
    return figure


def _draw_parts(axes: Axes, parts: pd.DataFrame, scale: pd.Series) -> None:
    """Stacked bars, and a mark at the share that is a difference of scale alone."""
    places, start = np.arange(len(parts)), np.zeros(len(parts))
    for name, (colour, hatch) in PARTS.items():
        width = parts[name].to_numpy()
        axes.barh(places, width, left=start, height=0.62, color=colour, hatch=hatch, lw=0)
        start = start + width
    for place, known in enumerate(parts.notna().all(axis=1)):
        if known and scale.iloc[place] > 0:
            axes.plot(scale.iloc[place], place, ls="", marker="|", color="black", ms=9, mew=1.2, clip_on=False)
        elif not known:
            axes.text(0.02, place, "undefined", va="center")
    axes.set(xlim=(0, 1), xlabel="share of the variance of two formats' difference")


def _draw_correlations(axes: Axes, table: pd.DataFrame, operators: list[str], formats: list[str]) -> None:
    """The corrected correlation with its interval, and the one that is not corrected, hollow."""
    colours, markers = style.colours(formats), style.markers(formats)
    offsets = dict(zip(formats, np.linspace(-0.26, 0.26, len(formats)) if len(formats) > 1 else [0], strict=True))
    for (operator, pair), rows in table.groupby(["operator", "formats"]):
        row, name = rows.iloc[0], str(pair)
        y = operators.index(str(operator)) + offsets[name]
        look: dict[str, Any] = {"ls": "", "marker": markers[name], "color": colours[name], "markersize": 3.4}
        axes.plot(row["pearson"], y, markerfacecolor="white", mew=0.7, **look)
        axes.plot([row["low"], row["high"]], [y, y], color=colours[name], lw=1)
        axes.plot(row["corrected"], y, **look)
    for level in (0, 1):
        axes.axvline(level, color=style.LIGHT, lw=0.6, zorder=0)
    axes.set(xlabel="correlation of two formats' effects, corrected")
