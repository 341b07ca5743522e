"""How many of the exactly best neurons the first stage lets through, over how many it lets through at all."""

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.precision.compute import EVERY_LAYER

PAPER_SHARE = 2000 / 14336


def draw(table: pd.DataFrame, width: int, title: str) -> Figure:
    """One panel for each operator, a line for each k: the mean over the formats, with their range."""
    pooled = table[table["layer"] == EVERY_LAYER]
    operators = list(dict.fromkeys(pooled["operator"]))
    figure, grid = style.panels(1, len(operators), height=1.75)
    ks = sorted(k for k in pooled["k"].unique() if k < width)
    names = {k: f"k = {k}" for k in ks}
    colours, markers = style.colours(list(names.values())), style.markers(list(names.values()))
    for axes, operator in zip(grid[0], operators, strict=True):
        own = pooled[pooled["operator"] == operator]
        for k, name in names.items():
            recall = own[own["k"] == k].groupby("candidates")["recall"].agg(["mean", "min", "max"])
            share = recall.index / width
            axes.fill_between(share, recall["min"], recall["max"], color=colours[name], alpha=0.2, lw=0)
            axes.plot(share, recall["mean"], color=colours[name], marker=markers[name], label=name)
        axes.axvline(PAPER_SHARE, color=style.GREY, ls=":", lw=0.8, label="the paper's share, 2,000 of 14,336")
        axes.set_title(f"{operator}\nrank correlation {own['rank_correlation'].mean():.2f}")
        axes.set(xlabel="share of a layer patched", xticks=(0, 0.5, 1))
    grid[0, 0].set(ylabel="recall of the exact top k", ylim=(-0.03, 1.03))
    figure.suptitle(title, fontsize=8)
    style.legend_below(figure, [grid[0, 0]])
    return figure
