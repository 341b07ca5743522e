"""The benchmark: replay against hooked passes, what its cost depends on, and the stages' throughput."""

from collections.abc import Callable
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style


def _replay(axes: Axes, rows: pd.DataFrame) -> None:
    for (stage, own), colour, marker in zip(rows.groupby("stage"), style.COLOURS[1::-1], "so", strict=False):
        axes.plot(own["tokens"], 1e3 * own["seconds"] / own["units"], marker=marker, color=colour, label=stage)
    axes.set(yscale="log", xlabel="tokens", ylabel="ms a patch", title="replay and hooked passes")
    axes.legend()


def _cost(axes: Axes, rows: pd.DataFrame, varied: str) -> None:
    axes.plot(rows[varied], rows["seconds"], marker="o", color=style.COLOURS[0])
    axes.set(xlabel=varied, ylabel="seconds", title=f"stage 2 by {varied}", ylim=(0, 1.1 * rows["seconds"].max()))


def _stages(axes: Axes, rows: pd.DataFrame) -> None:
    names = list(dict.fromkeys(rows["stage"]))[::-1]
    for number, (tokens, own) in enumerate(rows.groupby("tokens")):
        share = own.set_index("stage")["share"].reindex(names)
        places = [place + 0.2 - 0.4 * number for place in range(len(names))]
        colour, hatch = style.COLOURS[number], style.HATCHES[number]
        axes.barh(places, share, height=0.36, color=colour, hatch=hatch, lw=0, label=f"{tokens} tokens")
    axes.set_yticks(range(len(names)), names)
    axes.axvline(1, color=style.GREY, ls=":", lw=0.8)
    axes.set(xlabel="share of the matmul rate", title="stages")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.22), ncols=2, columnspacing=1)


def draw(table: pd.DataFrame, title: str) -> Figure:
    """One panel for each thing that was measured."""
    panels: list[Callable[[Axes], None]] = []
    of = dict(iter(table.groupby("suite")))
    if "replay" in of:
        panels.append(partial(_replay, rows=of["replay"]))
    if "cost" in of:
        panels += [
            partial(_cost, rows=rows, varied=str(varied))
            for varied, rows in of["cost"].groupby("stage", sort=False)
        ]
    if "stages" in of:
        panels.append(partial(_stages, rows=of["stages"]))
    figure, grid = style.panels(-(-len(panels) // 3), min(3, len(panels)), height=1.9, shared=False)
    for axes, draw_one in zip(grid.flat, panels, strict=False):
        draw_one(axes)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title, fontsize=8)
    return figure
