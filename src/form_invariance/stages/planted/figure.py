"""What the pipeline finds in models whose circuit was built by hand, beside what was built."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.overlap.compute import POOLED

MEASURES = {
    "first_stage": "planted neurons that\nattribution puts first",
    "ranking": "planted neurons that\nexact patching puts first",
    "overlap": "Jaccard of the\nformats' best",
    "keep_only": "faithfulness, all but\nshared neurons ablated",
    "knockout": "faithfulness, shared\nneurons ablated",
    "transfer": "wrong answers mended\nby a donor's activations",
}
TITLES = {"shared": "one circuit\nfor all formats", "separate": "a circuit\nfor each format"}


def _draw_circuit(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    """One panel: the value of each measure and format with its interval, by construction and at random."""
    colours, markers = style.colours(names), style.markers(names)
    for place, measure in enumerate(MEASURES):
        own = rows[rows["measure"] == measure].to_dict("records")
        for number, row in enumerate(own):
            height = place + 0.2 * (number - (len(own) - 1) / 2)
            name = str(row["format"]).split("_to_")[0]
            colour, marker = colours.get(name, "black"), markers.get(name, "*")
            for column, mark, label in (("expected", "|", "by construction"), ("random", "x", "random or chance")):
                axes.plot(row[column], height, mark, color=style.GREY, ms=9 if mark == "|" else 3, label=label)
            axes.plot([row["low"], row["high"]], [height, height], color=colour, lw=2.5, alpha=0.4)
            label = "all formats together" if name == "all" else name
            axes.plot(row["value"], height, color=colour, marker=marker, ls="", label=label)
    axes.set(ylim=(len(MEASURES) - 0.5, -0.5), yticks=range(len(MEASURES)), xticks=(0, 1))
    axes.set_yticklabels(MEASURES.values())
    axes.tick_params(axis="y", length=0)


def draw(table: pd.DataFrame) -> Figure:
    """A panel for each of the two constructions, a row for each measure; transfer in its donor's colour."""
    pooled = table[table["layer"] == POOLED]
    names = list(dict.fromkeys(pooled.loc[pooled["measure"] == "ranking", "format"]))
    figure, grid = style.panels(1, len(TITLES), width=style.ONE_COLUMN, height=2.6)
    for axes, (circuit, title) in zip(grid[0], TITLES.items(), strict=True):
        _draw_circuit(axes, pooled[pooled["circuit"] == circuit], names)
        axes.set_title(title)
    style.legend_below(figure, list(grid[0]))
    return figure
