"""Faithfulness over the share of neurons that is kept."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import Look, line_grid, spread
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.faithfulness.table import FAITHFULNESS, FAITHFULNESS_AREAS, RANDOM
from form_invariance.tables.inputs import Input

INPUTS = {"faithfulness": Input(FAITHFULNESS_AREAS, ("operator",))}

SHARE = "share of each late layer's neurons that is kept"
LOOKS = {
    "exact": Look(COLOURS[0], "o", label="the best of the format, by exact effect"),
    "attribution": Look(COLOURS[1], "s", label="the best of the format, by the first stage"),
    "shared": Look(COLOURS[2], "D", label="the best in all formats"),
    RANDOM: Look(GREY, "^", width=2.0, label="random"),
}


def faithfulness(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each ablation, a line for each order: the mean over cells, with their range."""
    table = tables["faithfulness"]
    rows = table[table["measure"] == FAITHFULNESS].rename(columns={"share": SHARE})
    curves = spread(rows, ["ablation", "order", SHARE], "", "value")
    curves = curves.assign(line=curves["order"], ablation="the others: " + curves["ablation"])
    grid = line_grid(
        curves, SHARE, LOOKS, "faithfulness", f"{title}: logit difference that is kept", col="ablation", height=1.9
    )
    if curves["value"].notna().any():  # without data a logarithmic axis has no limits
        grid.set(xscale="log")
    lowest, highest = min(0.0, curves["low"].min()), max(1.0, curves["high"].max())
    if lowest < highest:
        grid.set(ylim=(lowest - 0.05, highest + 0.05))
    return grid.figure
