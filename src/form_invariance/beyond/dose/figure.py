"""What neurons cost along the dose when knocked out, and what they keep when kept alone."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import DASH_DOT, DASHED, Look, legend_handles, line, line_plot
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.experiment.contrasts.entries import ALL_LOSS, OWN_LOSS, PRIMARY
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT

INPUTS = {"dose": {"contrasts": CONTRASTS}}
"""By figure."""

CONTROL_LOSSES = ("loss_of_matched", "loss_of_equal_norm", "loss_of_random_direction")
LOOKS = {
    OWN_LOSS: Look("black", "o", width=1.8, label="the format's own best"),
    "loss_of_other_formats_best": Look(COLOURS[0], "s", label="other formats' best"),
    "loss_of_other_operators_best": Look(COLOURS[1], "^", label="other operators' best, in other formats"),
    "loss_of_shared": Look(COLOURS[2], "D", label="shared by all formats"),
    **dict.fromkeys(CONTROL_LOSSES, Look(GREY, dashes=DASHED, width=0.9, label="each control")),
    ALL_LOSS: Look("black", dashes=DASH_DOT, width=0.7, label="all late neurons"),
}
"""By contrast, in the order of the legend."""
LOST = "probability lost by knockout"
RATIOS = {
    "other_formats_minus_own": LOOKS["loss_of_other_formats_best"],
    "other_operators_minus_own": LOOKS["loss_of_other_operators_best"],
}
"""By contrast: what is divided by the own loss."""


def _panel(axes: Axes, rows: pd.DataFrame, value: str, low: str, high: str, looks: Mapping[str, Look]) -> None:
    """Draw the lines of one panel that have a value."""
    panel_rows = rows[rows["contrast"].isin(looks)]
    drawn = line(panel_rows, panel_rows["contrast"], value, low, high)[["line", "k", "value", "low", "high"]]
    if drawn["value"].notna().any():
        line_plot(axes, drawn, looks)


def over_cells(contrasts: pd.DataFrame) -> pd.DataFrame:
    """The contrasts of probability that are drawn, over all cells; controls have no band."""
    rows = overall(contrasts)
    rows = rows[(rows["metric"] == PRIMARY) & rows["contrast"].isin([*LOOKS, *RATIOS])]
    # Where some cells share no neuron, the mean over the other cells is over other problems.
    rows = rows[(rows["cells"] > 0) & (rows["cells"] == rows["cells"].max())]
    return rows.assign(**rows[["low", "high"]].mask(rows["contrast"].isin(CONTROL_LOSSES)))


def dose(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Loss by knockout, its ratio to the own loss, and the gain of sets that are kept alone, by size."""
    rows = over_cells(tables["contrasts"])
    heading = f"{title}: the k best neurons of each late layer, at the last token"
    lost = rows[rows["intervention"] == KNOCKOUT]
    if not lost["contrast"].isin(LOOKS).any():
        return style.nothing(heading, "the model cannot do the problems")
    figure, panels = style.panels(1, 3, height=2.1)
    losses, ratios, gains = panels[0]
    _panel(losses, lost, "first", "low", "high", LOOKS)
    losses.set_ylabel(LOST)
    _panel(ratios, lost, "ratio", "ratio_low", "ratio_high", RATIOS)
    ratios.axhline(1, color="black", lw=0.6, ls=":")
    ratios.set_ylabel("loss / loss by the own best")
    everything = lost[lost["contrast"] == ALL_LOSS].assign(low=np.nan, high=np.nan)
    kept = rows[rows["intervention"] == KEEP_ONLY]
    # Keep-only is measured as a change from the unmodified model; all late neurons lose what can be kept.
    above = kept["k"].map(everything.set_index("k")["first"])
    kept = kept.assign(**{name: kept[name] + above for name in ("first", "low", "high")})
    _panel(gains, pd.concat([kept, everything]), "first", "low", "high", LOOKS)
    gains.set_ylabel("probability kept, beyond none kept")
    for axes in (losses, gains):
        axes.axhline(0, color="black", lw=0.6)
    for axes in panels[0]:
        axes.set_xlabel("neurons per layer, k")
    own_losses = lost[lost["contrast"] == OWN_LOSS]
    prompts, cells = own_losses["prompts"].max(), own_losses["cells"].max()
    extent = f"n = {prompts} right answers in {cells} cells; bands: 95 % intervals over problems"
    figure.suptitle(f"{heading}\n{extent}")
    names = set(lost["contrast"])
    looks = {look.label: look for name, look in LOOKS.items() if name in names}
    style.legend_below(figure, legend_handles(looks))
    return figure
