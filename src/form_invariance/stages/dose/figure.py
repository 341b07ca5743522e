"""Recovery over the dose of transfer: how far the neurons move, or how many of them do."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import Look, line, line_grid
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.dose.table import DOSE
from form_invariance.statistics import wilson
from form_invariance.tables.inputs import Input

INPUTS = {"dose": Input(DOSE, ("operator",))}

LOOKS = {
    "strength": Look(COLOURS[0], "o", label="every shared neuron, a part of the way"),
    "neurons": Look(COLOURS[2], "s", label="some shared neurons, the best first, all the way"),
    "neurons_random": Look(GREY, "^", width=2.0, label="some shared neurons, in a random order"),
}
"""By kind."""


def pooled(table: pd.DataFrame) -> pd.DataFrame:
    """Recovery with all operators' pairs together, the random orders averaged.

    Returns:
        Columns donor, target, kind, dose, pairs, recovered, low, high (Wilson, of the pairs).
    """
    key = ["donor", "target", "kind", "dose"]
    averaged = table.groupby([*key, "operator"], sort=False)[["pairs", "recovered"]].mean().reset_index()
    # Where no neuron is shared, recovery is undefined, and its pairs are no denominator.
    averaged["pairs"] = averaged["pairs"].where(averaged["recovered"].notna(), 0)
    averaged["hits"] = (averaged["pairs"] * averaged["recovered"]).fillna(0)
    total = averaged.groupby(key, sort=False)[["pairs", "hits"]].sum().reset_index()
    low, high = wilson(total["hits"].to_numpy(), total["pairs"].to_numpy())
    rates = total["hits"] / total["pairs"].replace(0, np.nan)
    return total.assign(recovered=rates, low=low, high=high).drop(columns="hits")


def dose(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each direction, donors in rows."""
    table = pooled(tables["dose"])
    nothing = "no pairs" if tables["dose"]["n_neurons"].any() else "no shared neuron"
    shown = table["pairs"].map(lambda pairs: f"n = {pairs:.0f}" if pairs else nothing)
    rates = line(table, table["kind"], "recovered", "low", "high")
    grid = line_grid(
        rates.assign(direction=table["donor"] + " to " + table["target"] + ", " + shown),
        "dose",
        LOOKS,
        "corrected",
        f"{title}: share of wrong answers corrected, by how much is transferred",
        col="direction",
        col_wrap=table["donor"].nunique() - 1,
        height=1.4,
    )
    return grid.figure
