"""What the knockout of the circuits costs on every task."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.experiment.contrasts.cells import COPYING, OTHER_OPERATORS, OWN
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.intervention_kinds import KNOCKOUT
from form_invariance.experiment.measurements import TEXT

INPUTS = {"tasks": {"contrasts": CONTRASTS}}
"""By figure."""


def _with_prompts(names: pd.Series, rows: pd.DataFrame) -> list[str]:
    """Names with the number of prompts of one operator in one format, if it is known."""
    each = rows["prompts"] / rows["cells"]
    return [f"{name} (n = {n:.0f})" if n > 0 else name for name, n in zip(names, each, strict=True)]


_CALLED = {OWN: "own operator", OTHER_OPERATORS: "other operators", TEXT: "plain text"}
"""Names of tasks in the figure."""


def tasks(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """What the knockout of the circuits costs on every task, largest first; a mark for the strongest control."""
    table = overall(tables["contrasts"])
    measured = (table["contrast"] == "circuit_minus_control") & (table["cells"] > 0)
    rows = table[measured & (table["intervention"] == KNOCKOUT) & (table["metric"] == PRIMARY)]
    sizes = set(rows["k"])
    k = k if k in sizes else max(sizes, default=k)
    rows = rows[rows["k"] == k]
    heading = f"{title}: knockout of the shared neurons, k = {k}"
    rows = rows[rows["task"] != COPYING].sort_values("first", ascending=False)
    if rows.empty:
        return style.nothing(heading, "no neuron is shared")
    rows = rows.assign(place=range(len(rows)))
    figure, panels = style.panels(1, 1, height=0.5 + 0.19 * len(rows))
    axes = panels[0, 0]
    axes.axvline(0, color="black", lw=0.6, zorder=0.5)
    # The interval is that of the difference from the control.
    axes.hlines(rows["place"], rows["second"] + rows["low"], rows["second"] + rows["high"], lw=1.6)
    axes.plot(rows["first"], rows["place"], "o", color=COLOURS[0], label="shared neurons, with the 95 % interval")
    axes.plot(rows["second"], rows["place"], "|", color=GREY, ms=7, mew=1.5, label="strongest matched control")
    for value, y in zip(rows["first"], rows["place"], strict=True):
        axes.annotate(f"{value:z.2f}", (value, y), (0, 4), textcoords="offset points", ha="center", fontsize=6)
    names = rows["task"].map(lambda task: _CALLED.get(task, task.replace("_", " ")))
    axes.set_yticks(rows["place"], _with_prompts(names, rows))
    axes.set(xlabel="probability of the answer lost", ylim=(len(rows) - 0.5, -0.7))
    figure.suptitle(heading)
    style.legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure
