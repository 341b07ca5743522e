"""Recall of the exact best neurons by each method, over the share of a layer that goes on to exact patching."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import DOTTED, Look, line_grid, looks_of, spread
from form_invariance.stages.audit.table import AUDIT
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"audit": Input(AUDIT)}

SHARE = "share of a layer patched"
PAPER_SHARE = 2000 / 14336


def audit(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """One panel for each k, a line for each method: the mean over the cells, with their range."""
    table = tables["audit"]
    width = table["candidates"].max()
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] < width)]
    correlation = pooled.groupby("method")["rank_correlation"].mean()
    lines = {name: f"{name.replace('_', ' ')} (rank correlation {rho:.2f})" for name, rho in correlation.items()}
    recall = spread(pooled, ["k", "method", "candidates"], "", "recall")
    recall = recall.assign(line=recall["method"].map(lines), **{SHARE: recall["candidates"] / width})
    others = {"the paper's share, 2,000 of 14,336": Look(style.GREY, dashes=DOTTED, width=0.8)}
    label = "recall of the exact top k"
    looks = looks_of(list(lines.values()))
    grid = line_grid(recall, SHARE, looks, label, title, col="k", col_wrap=3, height=1.75, others=others)
    for k, axes in grid.axes_dict.items():
        axes.axvline(PAPER_SHARE, color=style.GREY, ls=":", lw=0.8)
        axes.set_title(f"k = {k}")
        axes.set_xticks((0, 0.5, 1))
    return grid.figure
