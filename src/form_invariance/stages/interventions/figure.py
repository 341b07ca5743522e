"""Faithfulness (paper, Figures 4 and 5), accuracy and probability under keep-only and knockout by circuit size."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import DASH_DOT, DOTTED, Look, line, line_grid
from form_invariance.drawing.neuron_sets import NEURON_SETS
from form_invariance.drawing.style import COLOURS, LIGHT
from form_invariance.experiment.measurements import TEMPLATE_MEANS
from form_invariance.experiment.neuron_sets import CIRCUIT, CONTROLS
from form_invariance.stages.interventions.table import INTERVENTIONS, of_intervention
from form_invariance.statistics import student_factor

INPUTS = {name: {"interventions": INTERVENTIONS} for name in ("keep_only", "knockout")}
"""The tables of each figure."""

LOOKS = {
    CIRCUIT: NEURON_SETS[CIRCUIT],
    "last": Look(COLOURS[1], dashes=DOTTED, width=0.8, label=f"{NEURON_SETS[CIRCUIT].label}, last token only"),
    "template": Look(COLOURS[2], dashes=DASH_DOT, label=f"{NEURON_SETS[CIRCUIT].label}, its template's means"),
    **NEURON_SETS,
}
"""Looks of the kinds of neurons, and of circuits at other positions or with other means."""

DRAWN_METRICS = {
    "faithfulness": ("faithfulness_mean", "mean_low", "mean_high"),
    "accuracy": ("accuracy", "accuracy_low", "accuracy_high"),
    "probability": ("probability", "probability_low", "probability_high"),
}
"""A metric's column, and the limits of its interval over prompts."""


def over_draws(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Mean of a column over the draws of each control, and its 95 % t interval (NaN below five draws)."""
    draws = rows.groupby(["format", "operator", "neurons", "k"], sort=False)[value]
    stats = draws.agg(["mean", "std", "count"]).reset_index()
    half = stats["count"].map(student_factor) * stats["std"] / stats["count"] ** 0.5
    return stats.assign(low=stats["mean"] - half, high=stats["mean"] + half)


def keep_only(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Every neuron but the circuit's is ablated."""
    return _by_size(tables["interventions"], "keep_only", title)


def knockout(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """The circuit's neurons are ablated."""
    return _by_size(tables["interventions"], "knockout", title)


def _by_size(table: pd.DataFrame, intervention: str, title: str) -> Figure:
    """Rows are metrics and formats, columns the operators that have a shared neuron at some size."""
    heading = f"{title}: {intervention.replace('_', '-')}"
    circuits = table[table["neurons"] == CIRCUIT].groupby("operator", sort=False)["n_neurons"].max()
    empty = circuits.index[circuits == 0].tolist()
    if len(empty) == len(circuits):
        return style.nothing(heading, "no neuron is shared")
    table = table[~table["operator"].isin(empty)]
    heading += f", n = {style.extent(table['prompts'])} prompts a panel"
    heading += f"\nno shared neuron: {', '.join(empty)}" if empty else ""
    parts = []
    for metric, columns in DRAWN_METRICS.items():
        rows = _lines(table, intervention, *columns)
        parts.append(rows.assign(row=rows["format"] + "\n" + metric))
    lines = pd.concat(parts)
    grid = line_grid(lines, "k", LOOKS, heading, row="row", col="operator", height=0.75)
    for axes in grid.axes.flat:
        for level in (0, 1):
            axes.axhline(level, color=LIGHT, lw=0.5, zorder=0)
        axes.set_ylim(auto=True)
    return grid.figure


def _lines(table: pd.DataFrame, intervention: str, value: str, low: str, high: str) -> pd.DataFrame:
    """The lines of one metric: circuits with bootstrap intervals, controls with intervals over draws."""
    rows = of_intervention(table, intervention)
    circuits = {
        CIRCUIT: rows,
        "last": of_intervention(table, intervention, positions="last"),
        "template": of_intervention(table, intervention, means=TEMPLATE_MEANS),
    }
    parts = [line(part[part["neurons"] == CIRCUIT], name, value, low, high) for name, part in circuits.items()]
    controls = over_draws(rows[rows["neurons"].isin(CONTROLS)], value)
    return pd.concat([*parts, line(controls, controls["neurons"], "mean", "low", "high")])
