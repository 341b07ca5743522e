"""Overlap of the formats' circuits over circuit size (paper, Figure 3), with chance and ceiling."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.overlap.compute import POOLED

PARTS_WITHIN = "parts of one format's prompts (ceiling of the dashed line)"
PARTS_ACROSS = "all formats, by a part of the prompts each"


def all_formats(overlap: pd.DataFrame) -> pd.DataFrame:
    """The pooled rows of the overlap of all formats."""
    pooled = overlap[overlap["layer"] == POOLED]
    most = pooled["formats"].str.count(r"\+").max()
    return pooled[pooled["formats"].str.count(r"\+") == most]


def draw_overlap(axes: Axes, overlap: pd.DataFrame, reliability: pd.DataFrame) -> None:
    """One panel: all formats with interval, pairs, chance; dashed, by parts of the prompts."""
    pooled = overlap[overlap["layer"] == POOLED]
    every = all_formats(overlap)
    within = reliability[reliability["kind"] == "parts"].groupby("k")["jaccard"].agg(["min", "max", "mean"])
    axes.fill_between(within.index, within["min"], within["max"], color=style.LIGHT, alpha=0.4, lw=0)
    axes.plot(within.index, within["mean"], color=style.GREY, ls="--", label=PARTS_WITHIN)
    across = reliability[reliability["kind"] == "across_parts"]
    axes.plot(across["k"], across["jaccard"], color=style.COLOURS[0], ls="--", label=PARTS_ACROSS)
    partners = reliability[reliability["kind"] == "corrupt_seed"].groupby("k")["jaccard"].mean()
    axes.plot(partners.index, partners, color=style.GREY, ls="-.", lw=0.7, label="other corrupt partners")
    for _, pair in pooled[pooled["formats"] != every["formats"].iloc[0]].groupby("formats", sort=False):
        axes.fill_between(pair["k"], pair["low"], pair["high"], color=style.COLOURS[5], alpha=0.1, lw=0)
        axes.plot(pair["k"], pair["jaccard"], color=style.COLOURS[5], lw=0.7, label="pairs of formats")
    axes.plot(every["k"], every["chance"], color="black", ls=":", label="chance")
    axes.fill_between(every["k"], every["low"], every["high"], color=style.COLOURS[0], alpha=0.25, lw=0)
    axes.plot(every["k"], every["jaccard"], color=style.COLOURS[0], marker="o", label="all formats")


def draw(overlaps: Mapping[str, pd.DataFrame], reliabilities: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each operator.

    Raises:
        UserError: an operator has only one of the two tables.
    """
    style.check_keys(reliabilities, overlaps, "--reliability")
    figure, grid = style.panels(1, len(overlaps), height=1.6)
    for axes, (operator, overlap) in zip(grid[0], overlaps.items(), strict=True):
        draw_overlap(axes, overlap, reliabilities[operator])
        axes.set_title(operator)
        axes.set_xlabel("neurons per layer, k")
        style.k_axis(axes, sorted(overlap["k"].unique()))
    grid[0, 0].set(ylabel="Jaccard", ylim=(-0.03, 1.03))
    figure.suptitle(title, fontsize=8)
    style.legend_below(figure, [grid[0, 0]])
    return figure
