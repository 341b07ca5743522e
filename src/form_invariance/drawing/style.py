"""The one style of all figures: sizes, colours, and how they are saved."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from form_invariance.errors import UserError
from form_invariance.tables.files import write_atomically

ONE_COLUMN, TWO_COLUMNS = 7.7 / 2.54, 16 / 2.54
"""Width of a column of ACL's style, and of its two columns with the gap between, inches."""

# Okabe and Ito's palette: told apart without colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "/////", "\\\\\\\\\\", "xxxxx", "|||||", "-----", "+++++")
GREY = "#777777"
LIGHT = "#BBBBBB"

_SETTINGS = {
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7,
    "legend.fontsize": 6.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
    "legend.frameon": False,
    "svg.hashsalt": "form-invariance",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "hatch.color": "white",
    "hatch.linewidth": 0.5,
    "font.family": "DejaVu Sans",
}


def colours(names: Sequence[str]) -> dict[str, str]:
    """A fixed colour for each name, in order."""
    return {name: COLOURS[position % len(COLOURS)] for position, name in enumerate(names)}


def markers(names: Sequence[str]) -> dict[str, str]:
    """A fixed marker for each name, in order; where colours come again, they come with other markers."""
    return _shifted(names, MARKERS)


def hatches(names: Sequence[str]) -> dict[str, str]:
    """A fixed hatch for each name's bars, likewise."""
    return _shifted(names, HATCHES)


def _shifted(names: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    count = len(options)
    return {name: options[(position + position // len(COLOURS)) % count] for position, name in enumerate(names)}


def blank(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    """An empty figure in this style, sizes in inches."""
    mpl.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
    return Figure(figsize=(width, height), layout=layout)


def panels(
    rows: int,
    columns: int,
    *,
    width: float = TWO_COLUMNS,
    height: float = 1.55,
    widths: Sequence[float] | None = None,
    shared: bool = True,
) -> tuple[Figure, np.ndarray]:
    """A grid of panels.

    Args:
        height: inches of a row.
        widths: relative widths of the columns, whose panels then share no horizontal axis.
        shared: the panels share their axes.

    Returns:
        The figure and its axes, (rows, columns).
    """
    figure = blank(width, rows * height + 0.3, layout="constrained")
    axes = figure.subplots(
        rows,
        columns,
        sharex=shared and widths is None,
        sharey=shared,
        squeeze=False,
        gridspec_kw={"width_ratios": widths},
    )
    return figure, axes


def k_axis(axes: Axes, ks: Sequence[int]) -> None:
    """A logarithmic axis of circuit sizes, each k a tick, those labelled that have room."""
    ks = sorted(ks)
    specification, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    assert figure is not None
    columns = specification.get_gridspec().ncols if specification else 1
    # Inches of a digit, and of a panel's axis: what its column leaves beside ticks and padding.
    digit, width = 0.062, figure.get_figwidth() / columns * 0.8
    span = math.log(ks[-1] / ks[0]) or 1.0
    labels = [str(ks[-1])]
    end = width - digit * len(labels[0]) / 2
    for k in reversed(ks[:-1]):
        middle, half = width * math.log(k / ks[0]) / span, digit * len(str(k)) / 2
        fits = middle + half + digit / 2 <= end
        labels.append(str(k) if fits else "")
        end = middle - half if fits else end
    axes.set_xscale("log")
    axes.set_xticks(ks, labels[::-1])
    axes.minorticks_off()


def check_keys(given: Collection[object], wanted: Collection[object], option: str) -> None:
    """Check that an option names every table that a figure needs, and no other.

    Raises:
        UserError: naming the first key that lacks, or that nothing belongs to.
    """
    for keys, others, fault in ((wanted, given, "lacks a table for"), (given, wanted, "has no partner for")):
        for key in keys:
            if key not in others:
                name = "/".join(key) if isinstance(key, tuple) else key
                raise UserError(f"{option} {fault} {name!r}; give one table for each")


def legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, each label once, in as few rows as the width allows; the figure grows by it."""
    handles: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    for rows in range(1, len(handles) + 1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            loc="lower center",
            ncols=math.ceil(len(handles) / rows),
            columnspacing=1.5,
            borderaxespad=0.2,
        )
        box = legend.get_window_extent()
        if box.width <= figure.bbox.width or rows == len(handles):
            break
        legend.remove()
    width, height = figure.get_size_inches()
    room = box.height / figure.dpi + 0.05
    figure.set_size_inches(width, height + room)
    below = room / (height + room)
    figure.get_layout_engine().set(rect=(0, below, 1, 1 - below))  # type: ignore[union-attr, call-arg]


def _settle(figure: Figure) -> None:
    """Lay a figure out once, and round where its axes come to lie.

    Constrained layout places the same axes with different last bits from time to time; SVG hashes them
    into the names of its clip paths.
    """
    figure.draw_without_rendering()
    positions = [(axes, axes.get_position().bounds) for axes in figure.axes]
    figure.set_layout_engine("none")
    for axes, bounds in positions:
        axes.set_position(tuple(round(value, 6) for value in bounds))


def save(figure: Figure, outputs: Sequence[Path]) -> None:
    """Write a figure in the format that each file's ending names; the same tables give the same bytes.

    Raises:
        UserError: an ending is not .png, .svg or .pdf.
    """
    metadata = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    for path in outputs:
        if path.suffix not in metadata:
            raise UserError(f"--output: {path} must end in {', '.join(metadata)}")
    _settle(figure)
    for path in outputs:
        kind = path.suffix
        write_atomically(
            path,
            lambda to, kind=kind: figure.savefig(to, format=kind[1:], dpi=200, metadata=metadata[kind]),  # type: ignore[misc]
        )
