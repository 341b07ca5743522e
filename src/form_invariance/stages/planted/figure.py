"""What the pipeline finds in models whose circuit was built by hand, and what was built."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from form_invariance.drawing import style
from form_invariance.drawing.lines import Look, Looks, legend_handles, looks_of
from form_invariance.stages.planted.table import PLANTED
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"planted": Input(PLANTED)}

MEASURES = {
    "first_stage": "planted neurons that\nattribution puts first",
    "ranking": "planted neurons that\nexact patching puts first",
    "overlap": "Jaccard of the\nformats' best",
    "keep_only": "faithfulness, all but\nshared neurons ablated",
    "knockout": "faithfulness, shared\nneurons ablated",
    "transfer": "wrong answers corrected\nby a donor's activations",
}
TITLES = {"shared": "one circuit\nfor all formats", "separate": "a circuit\nfor each format"}
TOGETHER = "all formats together"
REFERENCES = {"expected": ("|", 9.0, "by construction"), "random": ("x", 3.0, "random or chance")}


def planted(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """A panel for each of the two constructions, a row for each measure; transfer in its donor's colour."""
    pooled = tables["planted"][tables["planted"]["layer"] == EVERY_LAYER]
    formats = pooled.loc[pooled["measure"] == "ranking", "format"].unique().tolist()
    looks = {**looks_of(formats, dashes=""), TOGETHER: Look("black", "*", "")}
    pooled = pooled.assign(look=pooled["format"].str.split("_to_").str[0].replace("all", TOGETHER))
    figure, grid = style.panels(1, len(TITLES), width=style.ONE_COLUMN, height=2.6)
    for axes, (circuit, heading) in zip(grid[0], TITLES.items(), strict=True):
        _draw_circuit(axes, pooled[pooled["circuit"] == circuit], looks)
        axes.set_title(heading)
    grid[0, 0].set_yticks(range(len(MEASURES)), list(MEASURES.values()))
    figure.suptitle(title)
    handles = legend_handles(looks)
    for marker, size, label in REFERENCES.values():
        handles.append(Line2D([], [], ls="", color=style.GREY, marker=marker, ms=size, mew=1, label=label))
    style.legend_below(figure, handles)
    return figure


def _draw_circuit(axes: Axes, rows: pd.DataFrame, looks: Looks) -> None:
    """One panel: the value of each measure and format with its interval, by construction and at random.

    By hand: seaborn dodges by the levels of a hue, and here each measure has its own number of rows.
    """
    measures = rows.groupby("measure")["format"]
    number = measures.cumcount() - (measures.transform("size") - 1) / 2
    rows = rows.assign(place=rows["measure"].map(list(MEASURES).index) + 0.2 * number)
    for column, (marker, size, _) in REFERENCES.items():
        axes.plot(rows[column], rows["place"], marker, color=style.GREY, ms=size, mew=1)
    for measure, part in rows[rows["expected"].isna()].groupby("measure"):
        if part["value"].isna().all():
            axes.text(
                0.5, list(MEASURES).index(str(measure)), "no shared neuron", ha="center", va="center", size=6.5
            )
    for name, part in rows.groupby("look"):
        look = looks[str(name)]
        axes.hlines(part["place"], part["low"], part["high"], look.colour, lw=2.5, alpha=0.4)
        axes.plot(part["value"], part["place"], color=look.colour, **look.arguments())
    axes.set(ylim=(len(MEASURES) - 0.5, -0.5), yticks=[], xticks=(0, 1))
    axes.tick_params(axis="y", length=0)
