"""Recovery over the dose of transfer: how far the neurons move, or how many of them do."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.statistics import wilson

KINDS = {
    "strength": ("every shared neuron, a part of the way", style.COLOURS[0], "o"),
    "neurons": ("the best shared neurons, all the way", style.COLOURS[2], "s"),
    "neurons_random": ("as many shared neurons in a random order", style.GREY, "^"),
}


def pooled(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Recovery with all operators' pairs together, the random orders averaged.

    Args:
        tables: dose table of every operator.

    Returns:
        Columns donor, target, kind, dose, pairs, recovered, low, high (Wilson, of the pairs).
    """
    key = ["donor", "target", "kind", "dose"]
    whole = pd.concat([table.assign(operator=operator) for operator, table in tables.items()])
    averaged = whole.groupby([*key, "operator"], sort=False)[["pairs", "recovered"]].mean().reset_index()
    averaged["hits"] = (averaged["pairs"] * averaged["recovered"]).fillna(0)
    total = averaged.groupby(key, sort=False)[["pairs", "hits"]].sum().reset_index()
    low, high = wilson(total["hits"].to_numpy(), total["pairs"].to_numpy())
    rates = total["hits"] / total["pairs"].replace(0, np.nan)
    return total.assign(recovered=rates, low=low, high=high).drop(columns="hits")


def draw(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each direction, donors in rows; the tables are keyed by operator."""
    table = pooled(tables)
    donors = list(dict.fromkeys(table["donor"]))
    figure, grid = style.panels(len(donors), len(donors) - 1, height=1.4)
    for row, donor in enumerate(donors):
        own = table[table["donor"] == donor]
        for axes, target in zip(grid[row], dict.fromkeys(own["target"]), strict=True):
            here = own[own["target"] == target]
            for kind, (label, colour, marker) in KINDS.items():
                rows = here[here["kind"] == kind].sort_values("dose")
                axes.fill_between(rows["dose"], rows["low"], rows["high"], color=colour, alpha=0.15, lw=0)
                axes.plot(rows["dose"], rows["recovered"], color=colour, marker=marker, label=label)
            pairs = int(here["pairs"].max())
            axes.set_title(f"{donor} to {target}, {f'n = {pairs}' if pairs else 'no pairs'}")
        grid[row, 0].set_ylabel("made right")
    grid[0, 0].set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    for axes in grid[-1]:
        axes.set_xlabel("dose")
    figure.suptitle(f"{title}: fraction of wrong answers made right, by how much is transferred", fontsize=8)
    style.legend_below(figure, list(grid.flat))
    return figure
