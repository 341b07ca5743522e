"""What is found in models that share a known part of their circuit, by this part."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import Look, legend_handles
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.calibration.table import CALIBRATION, EARLY, LATE
from form_invariance.tables.inputs import Input

INPUTS = {"calibration": Input(CALIBRATION)}

UNCORRECTED = "Jaccard alone (all k)"
EFFECTS = {
    "keep_only_faithfulness": Look(COLOURS[3], "o", "", label="keep-only, faithfulness"),
    "knockout_faithfulness": Look(COLOURS[4], "s", "", label="knockout, faithfulness"),
    "transfer": Look(COLOURS[5], "^", "", label="transfer, corrected"),
}
LATE_TRANSFER = "transfer, failures in late layers"


def calibration(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Left: estimated against true shared part, a point with its interval for each model and k. Right: effects.

    The effects are those of the shared neurons at k as many as are planted, minus their strongest control.
    """
    table = tables["calibration"]
    early = table[table["failures"] == EARLY]
    parts = early[early["measure"] == "shared_part"]
    sizes = sorted(parts["k"].unique())
    looks = {
        str(k): Look(COLOURS[place], style.MARKERS[place], "", label=f"k = {k}") for place, k in enumerate(sizes)
    }
    alone = early[early["measure"] == "uncorrected"]
    figure, grid = style.panels(1, 2, height=2.4)
    left, right = grid[0]
    left.plot([0, 1], [0, 1], color=GREY, lw=0.8, ls="--")
    for place, k in enumerate(sizes):
        shift = 0.045 * (place - (len(sizes) - 1) / 2)
        _points(left, parts[parts["k"] == k], looks[str(k)], shift)
        _points(left, alone[alone["k"] == k].assign(low=float("nan"), high=float("nan")), _ALONE, shift)
    left.set(xlabel="true shared part", ylabel="estimated shared part", ylim=(-0.05, 1.05))
    middle = sizes[len(sizes) // 2]
    for place, (measure, look) in enumerate(EFFECTS.items()):
        rows = early[(early["measure"] == measure) & (early["k"] == middle)]
        _points(right, rows, look, 0.045 * (place - 1))
    late = table[(table["failures"] == LATE) & (table["measure"] == "transfer") & (table["k"] == middle)]
    _points(right, late, _LATE, 0.045)
    right.axhline(0, color=GREY, lw=0.8)
    if (early.loc[early["share"] == 0, "measure"] == "transfer").any():
        right.text(0, 0.03, "nothing\nis shared", ha="center", va="bottom", size=6.5)
    right.set(xlabel="true shared part", ylabel=f"circuit minus strongest control, k = {middle}")
    figure.suptitle(title)
    handles = legend_handles({**looks, UNCORRECTED: _ALONE, **EFFECTS, LATE_TRANSFER: _LATE})
    for handle in handles:
        handle.set_markeredgewidth(0.6)  # a cross has nothing but its edge
    for axes in (left, right):
        axes.set_xlim(-0.1, 1.1)
    style.legend_below(figure, handles)
    return figure


_ALONE = Look(GREY, "x", "")
_LATE = Look("black", "v", "")


def _points(axes: Axes, rows: pd.DataFrame, look: Look, shift: float) -> None:
    """A point with its interval for each model; models of one share are side by side."""
    number = rows.groupby("share").cumcount()
    place = rows["share"] + shift + 0.007 * (number - number.max() / 2)
    axes.vlines(place, rows["low"], rows["high"], look.colour, lw=1.0, alpha=0.5)
    axes.plot(place, rows["value"], color=look.colour, **{**look.arguments(), "markersize": 2.8, "mew": 0.6})
