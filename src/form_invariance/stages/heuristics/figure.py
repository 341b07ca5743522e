"""Heuristic families of the shared neurons in every format, and their agreement (paper, section 4.6)."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style

MODES = {"reference": "published scores", "strict": "strict scores"}


def shares(table: pd.DataFrame, mode: str, activations: str, families: list[str], neurons: int) -> np.ndarray:
    """Share of the shared neurons that carry each family, (families,)."""
    chosen = table[table["label"] & (table["mode"] == mode) & (table["activations"] == activations)]
    counts = chosen.drop_duplicates(["layer", "neuron", "family"])["family"].value_counts()
    return np.array([counts.get(family, 0) / neurons if neurons else np.nan for family in families])


def agreement_text(agreement: pd.DataFrame, mode: str) -> str:
    """Observed agreement with its null in two lines."""
    rows = agreement[
        (agreement["mode"] == mode) & (agreement["activations"] == "observed") & (agreement["scope"] == "all")
    ]
    lines = []
    for statistic, over, name in (("exact", "all", "exact"), ("pair_jaccard", "any", "Jaccard")):
        row = rows[(rows["statistic"] == statistic) & (rows["over"] == over)].iloc[0]
        known = np.isfinite(row["observed"])
        lines.append(
            f"{name} {row['observed']:.2f} (null {row['null_mean']:.2f})" if known else f"{name}: no neuron"
        )
    return "\n".join(lines)


def draw_families(
    axes: Axes, cells: Mapping[str, pd.DataFrame], mode: str, families: list[str], neurons: int
) -> None:
    """One panel: a bar a family and format; a black mark where shuffled activations would come."""
    colours, hatches = style.colours(list(cells)), style.hatches(list(cells))
    height = 0.8 / len(cells)
    for number, (name, table) in enumerate(cells.items()):
        places = np.arange(len(families)) + (number - (len(cells) - 1) / 2) * height
        share = shares(table, mode, "observed", families, neurons)
        axes.barh(places, share, height, color=colours[name], hatch=hatches[name], lw=0, label=name)
        null = shares(table, mode, "shuffled", families, neurons)
        label = "the same, activations shuffled" if number == len(cells) - 1 else None
        axes.plot(null, places, "|", color="black", markersize=4, label=label)
    axes.set_yticks(np.arange(len(families)), families)
    axes.set(xlim=(0, 1), xticks=(0, 0.5, 1))


def draw(
    cells: Mapping[tuple[str, str], pd.DataFrame],
    agreements: Mapping[str, pd.DataFrame],
    labelled: Mapping[str, pd.DataFrame],
    title: str,
) -> Figure:
    """Rows are the two modes, columns operators; the cells are keyed (format, operator).

    Raises:
        UserError: a table lacks.
    """
    formats = list(dict.fromkeys(name for name, _ in cells))
    operators = list(dict.fromkeys(operator for _, operator in cells))
    style.check_keys(cells, list(product(formats, operators)), "--heuristics")
    style.check_keys(agreements, operators, "--agreement")
    style.check_keys(labelled, operators, "--labelled")
    families = sorted(
        set().union(*(table.loc[table["label"], "family"] for table in cells.values())), reverse=True
    )
    figure, grid = style.panels(len(MODES), len(operators), height=2.2)
    for column, operator in enumerate(operators):
        counts = labelled[operator]
        neurons = int(
            counts[(counts["mode"] == "strict") & (counts["activations"] == "observed")]["neurons"].sum()
        )
        own = {name: cells[name, operator] for name in formats}
        for row, (mode, label) in enumerate(MODES.items()):
            axes = grid[row, column]
            draw_families(axes, own, mode, families, neurons)
            axes.set_title(
                f"{operator}\n{neurons} neurons\n" * (row == 0) + agreement_text(agreements[operator], mode),
                fontsize=6.5,
            )
            if column == 0:
                axes.set_ylabel(label)
        grid[-1, column].set_xlabel("share of shared neurons")
    figure.suptitle(f"{title}: heuristic families", fontsize=8)
    style.legend_below(figure, list(grid.flat))
    return figure
