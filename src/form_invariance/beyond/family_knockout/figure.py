"""What is lost where a neuron's rule holds, minus where it does not, by family."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from form_invariance.beyond.family_knockout.table import FAMILY_KNOCKOUT
from form_invariance.drawing import style
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.stages.heuristics.names import MATCHED_BASELINES, POPULATIONS, SHARED
from form_invariance.tables.columns import ALL

INPUTS = {"family_knockout": {"family_knockout": FAMILY_KNOCKOUT}}
"""By figure."""

KINDS = {kind: POPULATIONS[kind] for kind in (SHARED, *MATCHED_BASELINES)}
PANELS = {"accuracy": "accuracy lost", "probability": "probability of the answer lost"}


def family_knockout(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """A panel for each metric, a row for each family, over all cells."""
    table = tables["family_knockout"]
    table = overall(table)
    table = table[table["cells"] > 0]
    families = table["family"].unique().tolist()
    figure, ((*panels,),) = style.panels(1, len(PANELS), height=0.6 + 0.24 * max(1, len(families)))
    colours, markers = style.colours([*KINDS]), style.markers([*KINDS])
    for axes, (metric, label) in zip(panels, PANELS.items(), strict=True):
        for offset, kind in zip(np.linspace(-0.22, 0.22, len(KINDS)), KINDS, strict=True):
            rows = table[(table["metric"] == metric) & (table["neurons"] == kind)]
            y = rows["family"].map(families.index).to_numpy() + offset
            axes.hlines(y, rows["low"], rows["high"], color=colours[kind], lw=1)
            axes.plot(rows["difference"], y, ls="", marker=markers[kind], color=colours[kind], ms=3.4)
        axes.axvline(0, color="black", lw=0.6, zorder=0.5)
        axes.set(xlabel=f"{label}:\nrule holds − rule does not hold", ylim=(max(1, len(families)) - 0.5, -0.5))
        axes.set_yticks(range(len(families)), ["all families" if family == ALL else family for family in families])
        if not families:
            axes.text(0.5, 0.5, "no label to try", transform=axes.transAxes, ha="center")
    panels[1].tick_params(labelleft=False)
    figure.suptitle(f"{title}: do labelled neurons matter where their rule holds? (k = {k})")
    handles = [
        Line2D([], [], ls="", marker=markers[kind], color=colours[kind], label=text)
        for kind, text in KINDS.items()
    ]
    style.legend_below(figure, handles)
    return figure
