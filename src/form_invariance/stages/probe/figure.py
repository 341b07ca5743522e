"""Figures of the linear probes: accuracy by layer (paper, Figure 2), and by layer and position."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.probe.summary import EVERY_OPERATOR, ONSET_ACCURACY, curve, of_all_formats, peak


def _draw_curves(axes: Axes, curves: Mapping[str, pd.DataFrame], together: pd.DataFrame) -> None:
    """One panel: accuracy by layer of each format's probe and of the one over all formats, onsets marked."""
    palette, markers = style.colours(list(curves)), style.markers(list(curves))
    # Formats with the same onset stand side by side, not on top of each other.
    shift = {name: 0.06 * (number - (len(curves) - 1) / 2) for number, name in enumerate(curves)}
    for name, rows in curves.items():
        axes.fill_between(rows["layer"], rows["low"], rows["high"], color=palette[name], alpha=0.2, lw=0)
        axes.plot(rows["layer"], rows["accuracy"], color=palette[name], marker=markers[name], label=name)
        onset = peak(rows).onset
        if onset is not None:
            axes.axvline(onset + shift[name], color=palette[name], ls=":", lw=0.9)
    axes.plot([], [], color="black", ls=":", lw=0.9, label="onset")
    axes.fill_between(together["layer"], together["low"], together["high"], color="black", alpha=0.1, lw=0)
    axes.plot(
        together["layer"], together["accuracy"], color="black", ls="--", lw=0.9, label="all formats together"
    )
    baseline = pd.concat(curves.values()).groupby("layer")[["majority", "shuffled"]].max()
    axes.plot(baseline.index, baseline.max(axis=1), color=style.GREY, lw=0.7, label="majority or shuffled answers")
    axes.axhline(ONSET_ACCURACY, color=style.LIGHT, lw=0.6, zorder=0)


def draw(tables: Mapping[str, pd.DataFrame], across: pd.DataFrame, title: str) -> Figure:
    """One panel for all operators together, and one for each.

    Args:
        tables: each format's probe table.
        across: probe table over all formats.
    """
    together = of_all_formats(across)
    operators = list(next(iter(tables.values()))["operator"].unique())
    figure, grid = style.panels(1, len(operators), height=1.6)
    for axes, operator in zip(grid[0], operators, strict=True):
        _draw_curves(
            axes,
            {name: curve(table, operator) for name, table in tables.items()},
            curve(together, operator),
        )
        axes.set_title("all operators" if operator == EVERY_OPERATOR else operator)
        axes.set_xlabel("layer")
    grid[0, 0].set(ylabel="probe accuracy", ylim=(-0.03, 1.03))
    grid[0, 0].xaxis.get_major_locator().set_params(integer=True)
    figure.suptitle(title, fontsize=8)
    style.legend_below(figure, [grid[0, 0]])
    return figure


_MOST_LABELS = 60
"""So many rotated labels have room beside each other in two columns."""


def _label(token: str) -> str:
    """A token for an axis: blanks and line breaks made visible."""
    return token.replace(" ", "␣").replace("\n", "↵") or "…"


def draw_positions(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """A heat map of layer and position for each format; the last token is on the right.

    Where there are more positions than labels have room for, each second, third, ... is labelled.
    """
    widths = [table["position"].max() + 1 for table in tables.values()]
    figure, grid = style.panels(1, len(tables), height=2.0, widths=widths)
    step = math.ceil(sum(widths) / _MOST_LABELS)
    for axes, (name, table) in zip(grid[0], tables.items(), strict=True):
        rows = table[(table["operator"] == EVERY_OPERATOR) & (table["trained"] == table["tested"])]
        wide = rows.pivot(index="layer", columns="position", values="accuracy").sort_index(axis=1, ascending=False)
        image = axes.imshow(wide, vmin=0, vmax=1, cmap="viridis", aspect="auto", origin="lower")
        tokens = rows.drop_duplicates("position").set_index("position")["token"]
        labels = [_label(tokens[one]) for one in wide.columns]
        places = range(len(labels) - 1, -1, -step)
        axes.set_xticks(places, [labels[place] for place in places], rotation=90, parse_math=False)
        axes.tick_params(axis="x", labelsize=6)
        axes.set_yticks(np.arange(0, len(wide), max(1, len(wide) // 8)))
        axes.set_title(name)
    grid[0, 0].set_ylabel("layer")
    figure.colorbar(image, ax=grid[0, -1], label="probe accuracy")
    figure.suptitle(title, fontsize=8)
    return figure
