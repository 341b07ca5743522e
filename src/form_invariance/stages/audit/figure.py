"""How many of the exactly best neurons the first stage lets through, over how many it lets through at all."""

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


def audit(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each operator, a line for each k: the mean over the formats, with their range."""
    table = tables["audit"]
    width = table["candidates"].max()
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] < width)]
    looks = looks_of([f"k = {k}" for k in sorted(pooled["k"].unique())])
    recall = spread(pooled, ["operator", "k", "candidates"], "", "recall")
    recall = recall.assign(line="k = " + recall["k"].astype(str), **{SHARE: recall["candidates"] / width})
    others = {"the paper's share, 2,000 of 14,336": Look(style.GREY, dashes=DOTTED, width=0.8)}
    label = "recall of the exact top k"
    grid = line_grid(recall, SHARE, looks, label, title, col="operator", height=1.75, others=others)
    correlation = pooled.groupby("operator")["rank_correlation"].mean()
    for operator, axes in grid.axes_dict.items():
        axes.axvline(PAPER_SHARE, color=style.GREY, ls=":", lw=0.8)
        axes.set_title(f"{operator}\nrank correlation {correlation[operator]:.2f}")
        axes.set_xticks((0, 0.5, 1))
    return grid.figure
