"""Faithfulness under keep-only and under knockout over circuit size (paper, Figures 4 and 5)."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASH_DOT, DASHED, DOTTED, Look, line, line_grid
from form_invariance.drawing.style import COLOURS, GREY, LIGHT
from form_invariance.stages.interventions.table import INTERVENTIONS, TEMPLATE_MEANS, rows_of
from form_invariance.statistics import student_factor
from form_invariance.tables.inputs import Input

INPUTS = {"interventions": Input(INTERVENTIONS, ("format", "operator"))}

LOOKS = {
    "circuit": Look(COLOURS[0], "o", width=2.0, label="shared circuit"),
    "last": Look(COLOURS[1], dashes=DOTTED, label="shared circuit, last token only"),
    "template": Look(COLOURS[2], dashes=DASH_DOT, label="shared circuit, its template's means"),
    "random": Look(GREY, label="random neurons"),
    "random_variance": Look(COLOURS[4], dashes=DASHED, label="random, equal variance"),
    "random_effect": Look(COLOURS[3], dashes=DOTTED, label="random, equal effect"),
}
"""By what is kept or knocked out, and how."""


def over_draws(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean over the draws of each control, and its 95 % t interval (not a number below three draws)."""
    draws = rows.groupby(["format", "operator", "neurons", "k"], sort=False)["faithfulness_ratio"]
    stats = draws.agg(["mean", "std", "count"]).reset_index()
    half = stats["count"].map(student_factor) * stats["std"] / stats["count"] ** 0.5
    return stats.assign(low=stats["mean"] - half, high=stats["mean"] + half)


def keep_only(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Every neuron but the circuit's is ablated."""
    return _faithfulness(tables["interventions"], "keep_only", f"{title}: keep-only")


def knockout(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """The circuit's neurons are ablated."""
    return _faithfulness(tables["interventions"], "knockout", f"{title}: knockout")


def _faithfulness(table: pd.DataFrame, intervention: str, title: str) -> Figure:
    """Rows are formats, columns operators: circuits with bootstrap intervals, controls with those over draws."""
    rows = rows_of(table, intervention)
    circuits = {
        "circuit": rows,
        "last": rows_of(table, intervention, positions="last"),
        "template": rows_of(table, intervention, means=TEMPLATE_MEANS),
    }
    parts = [
        line(one[one["neurons"] == "circuit"], name, "faithfulness_ratio", "ratio_low", "ratio_high")
        for name, one in circuits.items()
    ]
    controls = over_draws(rows[rows["neurons"] != "circuit"])
    parts.append(line(controls, controls["neurons"], "mean", "low", "high"))
    grid = line_grid(pd.concat(parts), "k", LOOKS, "faithfulness", title, row="format", col="operator")
    for axes in grid.axes.flat:
        for level in (0, 1):
            axes.axhline(level, color=LIGHT, lw=0.5, zorder=0)
        axes.set_ylim(auto=True)
    return grid.figure
