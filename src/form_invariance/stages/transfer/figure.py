"""Recovery by cross-format transfer over circuit size, all directions (paper, Figures 6 and 7)."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASHED, DOTTED, Look, line, line_grid
from form_invariance.drawing.style import COLOURS, GREY, LIGHT
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.inputs import Input

INPUTS = {"transfer": Input(TRANSFER, ("operator", "direction"))}

LOOKS = {
    "matched": Look(COLOURS[0], "o", label="matched donor"),
    "same_answer": Look(COLOURS[2], "^", DASHED, label="other operands, equal answer"),
    "mismatched": Look(COLOURS[1], "s", label="mismatched donor"),
    "same_format": Look(COLOURS[4], "D", DASHED, label="donor of the target's format"),
    "random": Look(GREY, label="random neurons"),
    "harm_matched": Look(COLOURS[3], "X", DOTTED, 0.9, label="harm: right answers turned wrong"),
    "harm_random": Look(LIGHT, dashes=DOTTED, width=1.8, label="harm by random neurons"),
}
"""By condition."""


def transfer(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Rows are directions, columns operators: rates with their Wilson intervals, and the number of pairs."""
    table = tables["transfer"].assign(direction=tables["transfer"]["direction"].str.replace("_to_", "\nto "))
    rates = line(table, table["condition"], "recovered", "low", "high")
    heading = f"{title}: share of wrong answers corrected by a donor's activations"
    grid = line_grid(rates, "k", LOOKS, "", heading, row="direction", col="operator", height=1.25)
    pairs = table.groupby(["direction", "operator", "condition"])["pairs"].max()
    for panel, axes in grid.axes_dict.items():
        axes.text(0.03, 1.0, _denominators(pairs[panel]), transform=axes.transAxes, va="bottom", fontsize=6)
    for axes in grid.axes[0]:
        axes.set_title(axes.get_title(), pad=12)
    return grid.figure


def _denominators(pairs: pd.Series) -> str:
    """The numbers of pairs, from those by condition."""
    shown = f"n = {pairs['matched']}" if pairs.get("matched", 0) else "no pairs"
    return f"{shown}, harm n = {pairs['harm_matched']}" if pairs.get("harm_matched", 0) else shown
