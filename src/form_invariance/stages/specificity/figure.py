"""The damage matrix as heat maps: whose circuit is knocked out, and what that does to every task."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.specificity.table import SPECIFICITY
from form_invariance.tables.inputs import Input

INPUTS = {"specificity": Input(SPECIFICITY)}

COLUMNS = {
    "circuit": "shared circuit",
    "random_effect": "control, equal effect",
    "random_variance": "control, equal variance",
}
"""Titles of the columns of panels, by the neurons that are knocked out."""


def middle(ks: pd.Series) -> int:
    """The middle circuit size; of two the larger one."""
    sizes = sorted(ks.unique())
    return int(sizes[len(sizes) // 2])


def damage_matrix(rows: pd.DataFrame, operators: list[str], tasks: list[str]) -> pd.DataFrame:
    """Mean loss of accuracy over the draws, operators in rows and tasks in columns; NaN where it is undefined."""
    found = rows.pivot_table(index="operator", columns="task", values="accuracy_damage", dropna=False)
    return found.reindex(index=operators, columns=tasks).astype(float)


def _draw(axes: Axes, values: pd.DataFrame) -> None:
    shown = values.map(lambda value: "–" if np.isnan(value) else str(round(100 * value)))
    axes.set_facecolor("#E8E8E8")
    sns.heatmap(values, ax=axes, vmin=0, vmax=1, cmap="rocket_r", cbar=False, linewidths=0.5, linecolor="white")
    for (row, column), text in np.ndenumerate(shown.to_numpy()):
        value = values.to_numpy()[row, column]
        colour = "white" if value > 0.5 else "black"
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=6.5, color=colour)
    axes.set(xlabel="", ylabel="")


def specificity(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Rows of panels are formats, columns the circuit and its controls; answers lost in percent, middle k."""
    table = tables["specificity"]
    k = middle(table["k"])
    table = table[(table["k"] == k) & (table["intervention"] == "knockout")]
    formats = table["format"].unique().tolist()
    operators, tasks = table["operator"].unique().tolist(), table["task"].unique().tolist()
    height = 0.45 + 0.17 * len(operators)
    figure, panels = style.panels(len(formats), len(COLUMNS), height=height)
    figure.set_size_inches(style.TWO_COLUMNS, len(formats) * height + 1.1)
    for row, name in enumerate(formats):
        for column, (neurons, heading) in enumerate(COLUMNS.items()):
            axes = panels[row, column]
            chosen = table[(table["format"] == name) & (table["neurons"] == neurons)]
            _draw(axes, damage_matrix(chosen, operators, tasks))
            axes.set_title(heading if row == 0 else "")
            axes.set_ylabel(f"{name}\ncircuit of" if column == 0 else "")
            axes.tick_params(length=0)
            axes.set_xticks(np.arange(len(tasks)) + 0.5, tasks if row == len(formats) - 1 else [], rotation=90)
            axes.set_yticks(np.arange(len(operators)) + 0.5, operators if column == 0 else [], rotation=0)
    bar = figure.colorbar(ScalarMappable(Normalize(0, 100), "rocket_r"), ax=panels, fraction=0.02, pad=0.02)
    bar.set_label("answers lost, percentage points")
    bar.outline.set_visible(False)
    figure.suptitle(f"{title}: knockout of each operator's circuit, by task (k = {k}; – undefined)")
    return figure
