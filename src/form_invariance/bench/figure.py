"""The benchmark: replay against other ways to patch, what its cost depends on, and the stages' throughput."""

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style


def _replay(axes: Axes, rows: pd.DataFrame) -> None:
    rows = rows[rows["layer"] < 0]
    stages = rows["stage"].unique().tolist()
    look = {"hue": "stage", "style": "stage", "dashes": False, "markeredgewidth": 0}
    look |= {"palette": style.colours(stages), "markers": style.markers(stages)}
    rows = rows.assign(milliseconds=1e3 * rows["seconds"] / rows["units"])
    sns.lineplot(rows, x="tokens", y="milliseconds", ax=axes, **look)
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="ms a patch", title="mean over late layers")
    axes.legend(title="", loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, columnspacing=1)


def _cost(axes: Axes, rows: pd.DataFrame) -> None:
    varied = rows["stage"].iloc[0]
    sns.lineplot(rows, x=varied, y="seconds", marker="o", markeredgewidth=0, ax=axes)
    axes.set(title=f"stage 2 by {varied}", ylim=(0, 1.1 * rows["seconds"].max()))


def _stages(axes: Axes, rows: pd.DataFrame) -> None:
    lengths = (rows["tokens"].astype(str) + " tokens").rename("length")
    names = lengths.unique().tolist()
    sns.barplot(rows, x="share", y="stage", hue=lengths, palette=style.colours(names), saturation=1, lw=0, ax=axes)
    for container, hatch in zip(axes.containers, style.hatches(names).values(), strict=True):
        for bar in container:
            bar.set_hatch(hatch)
    axes.axvline(1, color=style.GREY, ls=":", lw=0.8)
    axes.set(xlabel="share of the matmul rate", ylabel="", title="stages")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.22), ncols=2, columnspacing=1)


_SUITES = {"replay": _replay, "ioi": _replay, "cost": _cost, "stages": _stages}


def draw(table: pd.DataFrame, title: str) -> Figure:
    """One panel for each thing that was measured."""
    varied = table["stage"].where(table["suite"] == "cost", "")
    panels = [rows for _, rows in table.groupby(["suite", varied], sort=False)]
    figure, grid = style.panels(-(-len(panels) // 3), min(3, len(panels)), height=1.9)
    for axes, rows in zip(grid.flat, panels, strict=False):
        _SUITES[rows["suite"].iloc[0]](axes, rows)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    figure.suptitle(title)
    return figure
