"""All models in one figure: each question's difference by its deciding metric, with every operator."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from form_invariance.drawing import style
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.experiment.contrasts.questions import LAYERS, QUESTIONS
from form_invariance.tables.columns import ALL
from form_invariance.verdicts.summary.lines import pairs, part_of, said, sides, verdicts_at
from form_invariance.verdicts.summary.table import VERDICTS

INPUTS = {"summary": {"verdicts": VERDICTS}}
"""By figure."""

_WHOLE: dict[str, Any] = {"color": COLOURS[0], "lw": 1.6, "solid_capstyle": "butt"}
_OPERATOR: dict[str, Any] = {"color": GREY, "ls": "", "marker": "|", "ms": 5, "mew": 0.8}


def summary(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Rows are questions, panels models; a point whose line lies above zero means yes."""
    table = tables["verdicts"]
    decided = {str(model): verdicts_at(rows, k) for model, rows in table.groupby("model", sort=False)}
    models = list(decided)
    across = min(len(models), 3)
    figure, grid = style.panels(-(-len(models) // across), across, height=0.4 * len(QUESTIONS) + 0.3)
    for axes in grid.flat[len(models) :]:
        axes.set_visible(False)
    for panel, (model, axes) in enumerate(zip(models, grid.flat, strict=False)):
        _draw(axes, table[(table["model"] == model) & (table["k"] == k)], decided[model])
        axes.set(title=model, xlabel="difference" if panel + across >= len(models) else "")
        axes.set_yticks(range(len(QUESTIONS)), [""] * len(QUESTIONS))
        if panel % across == 0:
            axes.set_yticklabels([question.label for question in QUESTIONS.values()], va="bottom")
            _say_what_is_compared(axes, pd.concat(decided.values()))
    figure.suptitle(f"{title}: k = {k} best neurons of each layer")
    whole = Line2D([], [], marker="o", label="all operators, with the 95 % interval", **_WHOLE)
    style.legend_below(figure, [whole, Line2D([], [], label="each operator", **_OPERATOR)])
    return figure


def _draw(axes: Axes, table: pd.DataFrame, decided: pd.DataFrame) -> None:
    """One model: the deciding contrast's interval, a mark for each operator, the verdict and its values."""
    pooled = decided.set_index("question", drop=False)
    table = table[table["metric"] == table["question"].map(pooled["metric"])]
    # An axis of shares has no place for numbers of layers, which are said in words alone.
    points = ["difference", "low", "high"]
    table, pooled = (rows.assign(**rows[points].mask(rows["metric"] == LAYERS)) for rows in (table, pooled))
    axes.axvline(0, color="black", lw=0.6, zorder=0.5)
    # At least a tenth on either side: smaller differences are drawn as none.
    drawn = [*table["difference"], *pooled["low"], *pooled["high"]]
    low, high = np.nanmin([*drawn, -0.1]), np.nanmax([*drawn, 0.1])
    room = high - low
    axes.set_xlim(low - 0.05 * room, high + 0.45 * room)
    axes.set_ylim(len(QUESTIONS) - 0.4, -0.6)
    for y, question in enumerate(QUESTIONS):
        row: dict[Any, Any] = {"verdict": "undefined"}
        if question in pooled.index:
            row = dict(pooled.loc[question])
        each = table.loc[(table["question"] == question) & (table["operator"] != ALL), "difference"]
        axes.plot(each, [y] * len(each), **_OPERATOR)
        if "difference" in row:
            axes.plot([row["low"], row["high"]], [y, y], **_WHOLE)
            axes.plot(row["difference"], y, "o", color=COLOURS[0])
        axes.text(0.99, y, said(row), transform=axes.get_yaxis_transform(), ha="right", va="bottom")
        if row["verdict"] != "undefined":
            margin = part_of(row).margin
            size = f", k = {row['at_k']}" if row["at_k"] != row["k"] else ""
            _below(axes, (0.99, y), (0, -4), (sides(row, margin) + pairs(row) + size).replace("-", "−"))


def _say_what_is_compared(axes: Axes, decided: pd.DataFrame) -> None:
    """Below each question, its difference in words; several where different metrics decide for the models."""
    for y, (name, question) in enumerate(QUESTIONS.items()):
        metrics = decided.loc[decided["question"] == name, "metric"]
        compared = dict.fromkeys(map(question.drawn_for, metrics))
        _below(axes, (0, y), (-7, -4), "\nor ".join(compared) or question.drawn)


def _below(axes: Axes, at: tuple[float, float], offset: tuple[float, float], text: str) -> None:
    """A small grey line; `at` is a share of the width and a row, `offset` in points."""
    transform = axes.get_yaxis_transform()
    axes.annotate(text, at, offset, transform, "offset points", ha="right", va="top", fontsize=6, color=GREY)
