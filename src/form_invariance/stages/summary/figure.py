"""All models side by side: overlap, necessity, sufficiency, transfer. Thin lines are cells, thick ones means."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.stages.interventions.table import rows_of
from form_invariance.stages.overlap.figure import PARTS_ACROSS, PARTS_WITHIN, all_formats

Key = tuple[str, ...]

_CIRCUIT, _CONTROL = (style.COLOURS[0], "o"), (style.COLOURS[1], "s")


def _bundle(axes: Axes, curves: Sequence[pd.Series], look: tuple[str, str], label: str) -> None:
    """Thin lines for the curves (value by k), a thick one for their mean, in a colour and with a marker."""
    colour, marker = look
    for curve in curves:
        axes.plot(curve.index, curve, color=colour, lw=0.4, alpha=0.4)
    if curves:
        mean = pd.concat(list(curves), axis=1).mean(axis=1)
        axes.plot(mean.index, mean, color=colour, lw=1.8, marker=marker, label=label)


def _of(tables: Mapping[Key, pd.DataFrame], model: str) -> list[pd.DataFrame]:
    return [table for key, table in tables.items() if key[0] == model]


def _overlap(axes: Axes, overlaps: Sequence[pd.DataFrame], reliabilities: Sequence[pd.DataFrame]) -> None:
    every = [all_formats(table).set_index("k") for table in overlaps]
    _bundle(axes, [table["jaccard"] for table in every], _CIRCUIT, "shared by all formats")
    for kind, colour, label in (("parts", style.GREY, PARTS_WITHIN), ("across_parts", _CIRCUIT[0], PARTS_ACROSS)):
        parts = [table[table["kind"] == kind].groupby("k")["jaccard"].mean() for table in reliabilities]
        mean = pd.concat(parts, axis=1).mean(axis=1)
        axes.plot(mean.index, mean, color=colour, ls="--", label=label)
    axes.plot(every[0].index, every[0]["chance"], color="black", ls=":", label="chance")


def _faithfulness(axes: Axes, tables: Sequence[pd.DataFrame], intervention: str) -> None:
    for level in (0, 1):
        axes.axhline(level, color=style.LIGHT, lw=0.5)
    for kind, look, label in (
        ("random", _CONTROL, "random neurons, as many"),
        ("circuit", _CIRCUIT, "shared circuit"),
    ):
        curves = []
        for table in tables:
            rows = rows_of(table, intervention)
            curves.append(rows[rows["neurons"] == kind].groupby("k")["faithfulness_ratio"].mean())
        _bundle(axes, curves, look, label)


def _recovery(axes: Axes, tables: Sequence[pd.DataFrame]) -> None:
    for condition, look, label in (
        ("random", _CONTROL, "random neurons, as many"),
        ("matched", _CIRCUIT, "shared circuit"),
    ):
        curves = [
            table[(table["condition"] == condition) & (table["pairs"] > 0)].set_index("k")["recovered"]
            for table in tables
        ]
        _bundle(axes, [curve for curve in curves if len(curve)], look, label)


def draw(
    overlaps: Mapping[Key, pd.DataFrame],
    reliabilities: Mapping[Key, pd.DataFrame],
    interventions: Mapping[Key, pd.DataFrame],
    transfers: Mapping[Key, pd.DataFrame],
) -> Figure:
    """Rows are models, columns the four findings; keys begin with the model's name.

    Raises:
        UserError: a model or operator lacks one of its tables.
    """
    style.check_keys(reliabilities, overlaps, "--reliability")
    models = list(dict.fromkeys(key[0] for key in overlaps))
    style.check_keys({key[0] for key in interventions}, models, "--interventions")
    style.check_keys({key[0] for key in transfers}, models, "--transfer")
    figure, grid = style.panels(len(models), 4, height=1.75)
    titles = (
        "Same neurons?\nJaccard of the top k",
        "Sufficient?\nfaithful, rest ablated",
        "Necessary?\nfaithful, knocked out",
        "Transferable?\nanswers mended",
    )
    for row, model in enumerate(models):
        _overlap(grid[row, 0], _of(overlaps, model), _of(reliabilities, model))
        _faithfulness(grid[row, 1], _of(interventions, model), "keep_only")
        _faithfulness(grid[row, 2], _of(interventions, model), "knockout")
        _recovery(grid[row, 3], _of(transfers, model))
        grid[row, 0].set_ylabel(model)
        ks = sorted(next(iter(_of(overlaps, model)))["k"].unique())
        for axes in grid[row]:
            style.k_axis(axes, ks)
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title)
    for axes in grid[-1]:
        axes.set_xlabel("neurons per layer, k")
    grid[0, 0].set_ylim(-0.25, 1.1)
    style.legend_below(figure, list(grid[0]))
    return figure
