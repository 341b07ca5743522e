"""Heuristic families of the shared neurons in every format, and their agreement (paper, section 4.5)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from form_invariance.drawing import style
from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.heuristics.table import HEURISTICS

INPUTS = {"heuristics": {"heuristics": HEURISTICS, "agreement": AGREEMENT, "labelled": LABELLED}}
"""The tables of each figure."""

SHUFFLED = "the same, activations shuffled"
MODES = {"reference": "reference scores", "strict": "strict scores"}


def shares(table: pd.DataFrame, labelled: pd.DataFrame, formats: list[str]) -> pd.DataFrame:
    """Share of the shared neurons that carry each family, in each mode, operator and format.

    Returns:
        Columns mode, operator, format, family, and the shares of observed and of shuffled activations.
    """
    panel = ["mode", "operator", "format"]
    neurons = table[table["label"]].drop_duplicates([*panel, "activations", "layer", "neuron", "family"])
    counts = neurons.groupby([*panel, "family", "activations"]).size()
    families = sorted(neurons["family"].unique()) or [""]
    operators = labelled["operator"].unique().tolist()
    levels = [labelled["mode"].unique().tolist(), operators, formats, families, ["observed", "shuffled"]]
    index: pd.MultiIndex = pd.MultiIndex.from_product(levels, names=counts.index.names)
    by_family = counts.reindex(index, fill_value=0).unstack("activations").reset_index()
    whole = by_family["operator"].map(_neurons(labelled))
    return by_family.assign(observed=by_family["observed"] / whole, shuffled=by_family["shuffled"] / whole)


def _neurons(labelled: pd.DataFrame) -> pd.Series:
    """The number of shared neurons by operator."""
    strict_rows = labelled[(labelled["mode"] == "strict") & (labelled["activations"] == "observed")]
    return strict_rows.groupby("operator")["neurons"].sum()


def agreement_text(agreement: pd.DataFrame) -> str:
    """Observed agreement with its null in two lines, from one operator's rows of one mode."""
    rows = agreement[(agreement["activations"] == "observed") & (agreement["scope"] == "all")]
    lines = []
    for statistic, over, name in (("exact", "all", "exact"), ("pair_jaccard", "any", "Jaccard")):
        row = rows[(rows["statistic"] == statistic) & (rows["over"] == over)].iloc[0]
        finite = np.isfinite(row["observed"])
        lines.append(
            f"{name} {row['observed']:.2f} (null {row['null_mean']:.2f})" if finite else f"{name}: no neuron"
        )
    return "\n".join(lines)


def heuristics(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Rows are the modes, columns operators: bars by family and format, marks for shuffled activations.

    Operators without a shared neuron have no column.
    """
    heading = f"{title}: heuristic families (k = {k})"
    columns = {"heuristics": "neurons", "agreement": "kind", "labelled": "kind"}
    tables = {name: tables[name][tables[name][column] == SHARED] for name, column in columns.items()}
    neurons = _neurons(tables["labelled"])
    operators = neurons.index[neurons > 0]
    if operators.empty:
        return style.nothing(heading, "no neuron is shared")
    tables = {name: table[table["operator"].isin(operators)] for name, table in tables.items()}
    formats = tables["heuristics"]["format"].unique().tolist()
    # Digits have strict labels only.
    modes = [mode for mode in MODES if mode in set(tables["labelled"]["mode"])]
    colours, hatches = style.colours(formats), style.hatches(formats)
    grid = style.PanelGrid(
        shares(tables["heuristics"], tables["labelled"], formats),
        row="mode",
        col="operator",
        row_order=modes,
        col_order=tables["labelled"]["operator"].unique(),
        xlim=(0, 1),
    )
    bars = {"y": "family", "hue": "format", "hue_order": formats, "legend": False, "dodge": True}
    solid = {"palette": colours, "saturation": 1, "linewidth": 0, "errorbar": None}
    mark = {"palette": dict.fromkeys(formats, "black"), "marker": "|", "size": 4, "linewidth": 0.8}
    grid.map_dataframe(sns.barplot, x="observed", **bars, **solid)
    grid.map_dataframe(sns.stripplot, x="shuffled", jitter=False, clip_on=False, **bars, **mark)
    grid.set_titles("").set_axis_labels("share of shared neurons", "").set(xticks=(0, 0.5, 1))
    for (mode, operator), axes in grid.axes_dict.items():
        for container, name in zip(axes.containers, formats, strict=False):
            for bar in container:
                bar.set_hatch(hatches[name])
        agreement = tables["agreement"].query("mode == @mode and operator == @operator")
        above = f"{operator}\n{neurons[operator]} neurons\n" if mode == modes[0] else ""
        below = agreement_text(agreement) if len(agreement) else "whole numbers only"
        axes.set_title(above + below, fontsize=6.5)
    for axes, mode in zip(grid.axes[:, 0], modes, strict=True):
        axes.set_ylabel(MODES[mode])
    handles = [Patch(fc=colours[name], hatch=hatches[name], lw=0, label=name) for name in formats]
    shuffled = Line2D([], [], ls="", marker="|", color="black", mew=0.8, ms=4, label=SHUFFLED)
    style.finish(grid, heading, 2.2, [*handles, shuffled])
    return grid.figure
