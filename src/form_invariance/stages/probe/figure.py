"""Figures of the linear probes: accuracy by layer (paper, Figure 2), and by layer and position."""

import math
from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import DASHED, DOTTED, Look, line, line_grid, looks_of
from form_invariance.errors import UserError
from form_invariance.stages.probe.summary import ONSET_ACCURACY, curve, of_all_formats, peak
from form_invariance.stages.probe.table import PROBE
from form_invariance.tables.columns import ALL

INPUTS = {"probe": {"probe": PROBE}, "probe_positions": {"probe": PROBE}}
"""The input tables of each figure."""

TOGETHER, BASELINE = "all formats together", "majority or shuffled answers"


def probe(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Accuracy by layer with Wilson intervals and onsets: a panel for all operators together, and one for each."""
    table, across = _by_format(tables)
    operators, formats = (table[column].unique().tolist() for column in ("operator", "format"))
    alone, together = (
        pd.concat([curve(rows, operator) for operator in operators]) for rows in (table, of_all_formats(across))
    )
    baseline = alone.groupby(["operator", "layer"])[["majority", "shuffled"]].max().max(axis=1).rename("majority")
    lines = [
        line(alone, alone["format"], "accuracy", "low", "high"),
        line(together, TOGETHER, "accuracy", "low", "high"),
        line(baseline.reset_index(), BASELINE, "majority"),
    ]
    looks = looks_of(formats)
    looks[TOGETHER] = Look("black", dashes=DASHED, width=0.9)
    looks[BASELINE] = Look(style.GREY, width=0.7)
    heading = f"{title}: the last token, {_tested(alone)} of a format; 95 % intervals"
    others = {"first layer above 0.5 (onset)": Look("black", dashes=DOTTED, width=0.9)}
    rows = pd.concat(lines).assign(panel=lambda rows: rows["operator"].replace(ALL, "all operators"))
    grid = line_grid(rows, "layer", looks, heading, ylabel="probe accuracy", col="panel", others=others)
    for operator, axes in zip(operators, grid.axes.flat, strict=True):
        axes.axhline(ONSET_ACCURACY, color=style.LIGHT, lw=0.6, zorder=0)
        for number, name in enumerate(formats):
            onset = peak(curve(table[table["format"] == name], operator)).onset
            if onset is not None:
                # Formats with the same onset are drawn next to each other.
                onset_x = onset + 0.06 * (number - (len(formats) - 1) / 2)
                axes.axvline(onset_x, color=looks[name].colour, ls=":", lw=0.9)
    return grid.figure


def _by_format(tables: Mapping[str, pd.DataFrame]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of probes of one format, and those of probes of all formats."""
    across = tables["probe"]["format"] == ALL
    if across.all():
        raise UserError("--tables: no probe.parquet of a format is given, only the one of all formats together")
    return tables["probe"][~across], tables["probe"][across]


def _tested(rows: pd.DataFrame) -> str:
    return f"n = {style.extent(rows['test_prompts'])} test prompts"


_MOST_LABELS = 60
"""This many rotated labels fit in the width of two columns."""


def probe_positions(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """A heat map of layer and position for each format; the last token is on the right.

    If there are more positions than labels fit, only every second, third, ... position has a label.
    """
    table, _ = _by_format(tables)
    rows = table[(table["operator"] == ALL) & (table["trained"] == table["tested"])]
    formats = rows["format"].unique()
    widths = (rows.groupby("format")["position"].max() + 1).loc[formats].tolist()
    figure, grid = style.panels(1, len(formats), height=2.0, widths=widths)
    step = math.ceil(sum(widths) / _MOST_LABELS)
    for axes, name in zip(grid[0], formats, strict=True):
        part = rows[rows["format"] == name]
        wide = part.pivot(index="layer", columns="position", values="accuracy").sort_index(axis=1, ascending=False)
        labelled = {"xticklabels": False, "yticklabels": "auto" if axes is grid[0, 0] else False}
        sns.heatmap(wide, ax=axes, vmin=0, vmax=1, cmap="viridis", cbar=False, rasterized=True, **labelled)
        tokens = part.drop_duplicates("position").set_index("position")["token"]
        columns = range(len(wide.columns) - 1, -1, -step)
        labels = [style.visible(tokens[wide.columns[column]]) or "…" for column in columns]
        axes.set_xticks([column + 0.5 for column in columns], labels, rotation=90, size=6, parse_math=False)
        axes.invert_yaxis()
        axes.tick_params(axis="y", rotation=0)
        axes.set(title=name, xlabel="token", ylabel="")
    grid[0, 0].set_ylabel("layer")
    figure.colorbar(grid[0, -1].collections[0], ax=grid[0, -1], label="probe accuracy")
    figure.suptitle(f"{title}: all operators, {_tested(rows)}")
    return figure
