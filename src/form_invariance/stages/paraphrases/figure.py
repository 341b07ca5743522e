"""Overlap of the circuits of two wordings of one format, beside those of two formats, over circuit size."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.overlap.compute import POOLED
from form_invariance.stages.paraphrases.table import CANONICAL, YES


def one_format(table: pd.DataFrame) -> pd.Series:
    """Where a variants table compares wordings of one format."""
    return table["first_format"] == table["second_format"]


def two_templates(table: pd.DataFrame) -> pd.Series:
    """Where it compares two formats' templates."""
    return ~one_format(table) & (table["first"] == table["second"]) & (table["first"] == CANONICAL)


def one_ending(table: pd.DataFrame) -> pd.Series:
    """Where it compares two formats in wordings that end in the same token."""
    return ~one_format(table) & (table["same_final_token"] == YES)


def _by_halves(axes: Axes, table: pd.DataFrame, colour: str, label: str, itself: str) -> None:
    """Mean and range of the Jaccard by disjoint halves of the prompts, and its ceiling."""
    by_k = table.groupby("k")["across_halves"].agg(["mean", "min", "max"])
    axes.fill_between(by_k.index, by_k["min"], by_k["max"], color=colour, alpha=0.2, lw=0)
    axes.plot(by_k.index, by_k["mean"], color=colour, marker="o", label=label)
    ceiling = table.groupby("k")["within_halves"].mean()
    axes.plot(ceiling.index, ceiling, color=colour, ls="--", lw=0.8, label=itself)


def draw_wordings(axes: Axes, table: pd.DataFrame) -> None:
    """One panel: two wordings, two formats, their ceilings, chance, and the number of prompts."""
    pooled = table[table["layer"] == POOLED]
    wordings, formats = pooled[one_format(pooled)], pooled[two_templates(pooled)]
    alike = pooled[one_ending(pooled)]
    measured = wordings[wordings["prompts"] > 0]
    _by_halves(axes, formats, style.COLOURS[1], "two formats", "one of these formats with itself")
    if len(alike):
        _by_halves(axes, alike, style.COLOURS[2], "two formats, the same last token", "one of these with itself")
    _by_halves(axes, measured, style.COLOURS[0], "two wordings of one format", "one of these wordings with itself")
    same = measured.groupby("k")["jaccard"].mean()
    axes.plot(same.index, same, color=style.COLOURS[0], lw=0.6, label="two wordings, the same operands")
    chance = pooled.groupby("k")["chance"].mean()
    axes.plot(chance.index, chance, color="black", ls=":", label="chance")
    pairs = wordings.drop_duplicates(["first_format", "first", "second"])
    used = pairs.loc[pairs["prompts"] > 0, "prompts"]
    shown = f"{used.min()} to {used.max()} prompts" if len(used) else "too few prompts"
    if 0 < len(used) < len(pairs):
        shown += f", {len(used)} of {len(pairs)} pairs"
    axes.text(0.03, 1.0, shown, transform=axes.transAxes, va="bottom", fontsize=6)


def draw(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each operator; the variants tables are keyed by operator."""
    width = style.TWO_COLUMNS if len(tables) > 1 else style.ONE_COLUMN
    figure, grid = style.panels(1, len(tables), width=width, height=1.8)
    for axes, (operator, table) in zip(grid[0], tables.items(), strict=True):
        draw_wordings(axes, table)
        axes.set_title(operator, pad=12)
        axes.set_xlabel("neurons per layer, k")
        style.k_axis(axes, sorted(table["k"].unique()))
    grid[0, 0].set(ylabel="Jaccard", ylim=(-0.03, 1.03))
    figure.suptitle(title, fontsize=8)
    style.legend_below(figure, [grid[0, 0]])
    return figure
