"""The benchmark: replay against other ways to patch, and the stages' throughput."""

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
    axes.set_xticks(lengths := rows["tokens"].unique(), lengths)
    axes.xaxis.minorticks_off()
    axes.legend(title="", loc="upper center", bbox_to_anchor=(0.5, -0.28), ncols=2, columnspacing=1)


def _stages(axes: Axes, rows: pd.DataFrame) -> None:
    lengths = (rows["tokens"].astype(str) + " tokens").rename("length")
    names = lengths.unique().tolist()
    sns.barplot(rows, x="share", y="stage", hue=lengths, palette=style.colours(names), saturation=1, lw=0, ax=axes)
    for container, hatch in zip(axes.containers, style.hatches(names).values(), strict=True):
        for bar in container:
            bar.set_hatch(hatch)
    axes.axvline(1, color=style.GREY, ls=":", lw=0.8)
    axes.set(xlabel="share of the matmul rate", ylabel="", title="stages")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.28), ncols=2, columnspacing=1)


_SUITES = {"replay": _replay, "stages": _stages}


def draw(table: pd.DataFrame, title: str) -> Figure:
    """One panel for each thing that was measured."""
    suites = [rows for _, rows in table.groupby("suite", sort=False)]
    figure, grid = style.panels(1, len(suites), height=1.9)
    for axes, rows in zip(grid.flat, suites, strict=True):
        _SUITES[rows["suite"].iloc[0]](axes, rows)
    figure.suptitle(title)
    return figure
