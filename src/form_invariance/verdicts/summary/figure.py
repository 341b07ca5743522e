"""One figure of all models: the difference of each question's deciding metric, over all and for each operator."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from form_invariance.drawing import style
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.experiment.answers import FIXED
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.questions import JACCARD, LAYERS, QUESTIONS, SERVES, Part
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.tables.columns import ALL
from form_invariance.verdicts.summary.lines import extent, pairs, part_of, said, sides, verdicts_at
from form_invariance.verdicts.summary.table import VERDICTS

INPUTS = {"summary": {"verdicts": VERDICTS}}
"""By figure."""

_WHOLE: dict[str, Any] = {"color": COLOURS[0], "lw": 1.6, "solid_capstyle": "butt"}
_OPERATOR: dict[str, Any] = {"color": GREY, "ls": "", "marker": "|", "ms": 5, "mew": 0.8}


UNITS: dict[str, Callable[[Part], bool]] = {
    "difference of Jaccards": lambda part: part.of == JACCARD,
    "difference of probabilities": lambda part: part.of == PRIMARY and not part.margin,
    "difference of shares": lambda part: part.of == RATE,
    f"ratio − {SERVES}": lambda part: part.margin == SERVES,
    "layers": lambda part: part.of == LAYERS,
}
"""What an axis shows, and the contrasts that have this unit."""


def summary(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Rows of panels are units, columns are models; a point whose line lies above zero means yes."""
    table = tables["verdicts"][tables["verdicts"]["k"] == k]
    by_model = {str(model): rows for model, rows in table.groupby("model", sort=False)}
    first_parts = {name: next(iter(question.parts.values())) for name, question in QUESTIONS.items()}
    units = {unit: [name for name, part in first_parts.items() if has(part)] for unit, has in UNITS.items()}
    lines = [len(names) + 1 for names in units.values()]  # one for the axis
    across = min(len(by_model), 3)
    blocks = -(-len(by_model) // across)
    height = 0.4 * sum(lines) / len(units)
    figure, grid = style.panels(blocks * len(units), across, height=height, heights=blocks * lines)
    for axes in grid[-len(units) :, (len(by_model) - 1) % across + 1 :].flat:
        axes.set_visible(False)
    decided = {model: verdicts_at(rows, k) for model, rows in by_model.items()}
    for row, (unit, names) in enumerate(units.items()):
        drawn = {model: _of_unit(by_model[model], decided[model], unit) for model in by_model}
        low, high = _limits(drawn.values())
        for number, model in enumerate(by_model):
            axes = grid[row + number // across * len(units), number % across]
            axes.set(xlabel=unit, xlim=(low - 0.05 * (high - low), high + 0.7 * (high - low)))
            _draw(axes, names, drawn[model], decided[model])
            axes.set_title("" if row else f"{model}{_extent(decided[model])}")
            axes.set_yticks(range(len(names)), [""] * len(names))
            if not number % across:
                axes.set_yticklabels([QUESTIONS[name].label for name in names], va="bottom")
                _say_what_is_compared(axes, names, pd.concat(decided.values()))
    figure.suptitle(f"{title}: k = {k} best neurons of each layer")
    whole = Line2D([], [], marker="o", label=f"all operators, with the 95 % interval ({FIXED})", **_WHOLE)
    style.legend_below(figure, [whole, Line2D([], [], label="each operator", **_OPERATOR)])
    return figure


def _extent(decided: pd.DataFrame) -> str:
    """A line with the number of answers of the knockouts; empty if no neuron is shared."""
    rows = decided[(decided["question"] == "necessary") & (decided["verdict"] != "undefined")].to_dict("records")
    return f"\n{extent(rows[0])}" if rows else ""


def _of_unit(table: pd.DataFrame, decided: pd.DataFrame, unit: str) -> pd.DataFrame:
    """The rows of a model, over all operators and by operator, whose deciding contrast has the unit."""
    metrics = decided.set_index("question")["metric"]
    rows = table[table["metric"] == table["question"].map(metrics)]
    return rows[[UNITS[unit](part_of(row)) for row in rows.to_dict("records")]]


def _limits(tables: Iterable[pd.DataFrame]) -> tuple[float, float]:
    """The limits of an axis, at least 0.1 on either side, so that smaller differences look like none."""
    rows = pd.concat(tables)
    pooled = rows[rows["operator"] == ALL]
    drawn = [*rows["difference"], *pooled["low"], *pooled["high"]]
    return float(np.nanmin([*drawn, -0.1])), float(np.nanmax([*drawn, 0.1]))


def _draw(axes: Axes, names: list[str], drawn: pd.DataFrame, decided: pd.DataFrame) -> None:
    """One model: the deciding contrast's interval, a mark for each operator, the verdict and its values."""
    axes.axvline(0, color="black", lw=0.6, zorder=0.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    rows = {row["question"]: row for row in decided.to_dict("records")}
    for y, question in enumerate(names):
        row = rows.get(question)
        of_question = drawn[drawn["question"] == question]
        each = of_question.loc[of_question["operator"] != ALL, "difference"]
        axes.plot(each, [y] * len(each), **_OPERATOR)
        if row and len(of_question):
            axes.plot([row["low"], row["high"]], [y, y], **_WHOLE)
            axes.plot(row["difference"], y, "o", color=COLOURS[0])
        words = said(row) if row else "undefined"
        axes.text(0.99, y, words, transform=axes.get_yaxis_transform(), ha="right", va="bottom")
        if row and row["verdict"] != "undefined":
            size = f", k = {row['at_k']}" if row["at_k"] != row["k"] else ""
            _below(axes, (0.99, y), (0, -4), (sides(row) + pairs(row) + size).replace("-", "−"))


def _say_what_is_compared(axes: Axes, names: list[str], decided: pd.DataFrame) -> None:
    """Write below each question what is compared; several lines where different metrics decide for the models."""
    for y, name in enumerate(names):
        question = QUESTIONS[name]
        metrics = decided.loc[decided["question"] == name, "metric"]
        compared = dict.fromkeys(map(question.drawn_for, metrics))
        _below(axes, (0, y), (-7, -4), "\nor ".join(compared) or question.drawn)


def _below(axes: Axes, at: tuple[float, float], offset: tuple[float, float], text: str) -> None:
    """Write a small grey line at `at` (share of the width, row), moved by `offset` in points."""
    transform = axes.get_yaxis_transform()
    axes.annotate(text, at, offset, transform, "offset points", ha="right", va="top", fontsize=6, color=GREY)
