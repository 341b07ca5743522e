"""The one style of all figures: sizes, colours, and how they are saved."""

import math
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from form_invariance.errors import UserError
from form_invariance.tables.files import write_atomically

# Okabe and Ito's palette, for readers without colour vision too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
GREY = "#777777"
LIGHT = "#BBBBBB"

TWO_COLUMNS = 16 / 2.54
"""Inches: the width of the two columns of ACL's style, with the gap between them."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "/////", "\\\\\\\\\\", "xxxxx", "|||||", "-----", "+++++")

_SETTINGS = {
    "font.size": 7,
    "figure.titlesize": 8,
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
    "xtick.major.size": 3.5,
    "ytick.major.size": 3.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.8,
    "lines.markeredgewidth": 0,
    "legend.frameon": False,
    "legend.columnspacing": 1.5,
    "svg.hashsalt": "form-invariance",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "hatch.color": "white",
    "hatch.linewidth": 0.5,
}
# The user's matplotlibrc must not change these figures.
mpl.rcdefaults()
mpl.use("agg")
sns.set_theme(context="paper", style="ticks", palette=COLOURS, font="DejaVu Sans", rc=_SETTINGS)


def colours(names: Sequence[str]) -> dict[str, str]:
    """A fixed colour for each name, in order."""
    return {name: COLOURS[position % len(COLOURS)] for position, name in enumerate(names)}


def markers(names: Sequence[str]) -> dict[str, str]:
    """A fixed marker for each name, in order. Names with the same colour have different markers."""
    return _shifted(names, MARKERS)


def hatches(names: Sequence[str]) -> dict[str, str]:
    """A fixed hatch for each name's bars. Names with the same colour have different hatches."""
    return _shifted(names, HATCHES)


def _shifted(names: Sequence[str], options: Sequence[str]) -> dict[str, str]:
    count = len(options)
    return {name: options[(position + position // len(COLOURS)) % count] for position, name in enumerate(names)}


def visible(token: str) -> str:
    """A token with its spaces and line breaks shown."""
    return token.replace(" ", "␣").replace("\n", "↵")


def extent(numbers: pd.Series) -> str:
    """The smallest and the largest of some numbers, in words; a single number if they are equal."""
    least, most = min(numbers), max(numbers)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def nothing(title: str, why: str) -> Figure:
    """The figure of a model without anything to draw: one line that says why."""
    figure = Figure(figsize=(TWO_COLUMNS, 0.5), layout="constrained")
    figure.suptitle(f"{title}: {why}")
    return figure


def panels(
    rows: int,
    columns: int,
    *,
    width: float = TWO_COLUMNS,
    height: float,
    widths: Sequence[float] | None = None,
    heights: Sequence[float] | None = None,
) -> tuple[Figure, np.ndarray]:
    """A grid of panels that differ in kind, which seaborn's FacetGrid does not make.

    Args:
        height: mean height of a row, in inches.
        widths: relative widths of the columns.
        heights: relative heights of the rows.

    Returns:
        The figure and its axes, (rows, columns).
    """
    figure = Figure(figsize=(width, rows * height + 0.3), layout="constrained")
    ratios = {"width_ratios": widths, "height_ratios": heights}
    return figure, figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios)


class PanelGrid(sns.FacetGrid):  # type: ignore[misc]
    """A grid of panels that is laid out once, when it is finished; seaborn would lay it out after every step."""

    def tight_layout(self, *args: object, **kwargs: object) -> "PanelGrid":
        """Leave the layout as it is."""
        return self


def finish(grid: sns.FacetGrid, title: str, height: float, handles: Sequence[Artist]) -> None:
    """Give a grid its size (`height` inches for each row), its title, and one legend below."""
    figure = grid.figure
    pyplot.close(figure)
    figure.set_layout_engine("constrained")
    figure.suptitle(title)
    rows = grid.axes.flat[0].get_subplotspec().get_gridspec().nrows
    figure.set_size_inches(TWO_COLUMNS, rows * height + 0.3)
    legend_below(figure, handles)


def legend_below(figure: Figure, handles: Sequence[Artist]) -> None:
    """One legend for all panels, in as few rows as the width allows; the figure grows by it."""
    for rows in range(1, len(handles) + 1):
        columns = math.ceil(len(handles) / rows)
        legend = figure.legend(handles=handles, loc="lower center", ncols=columns, borderaxespad=0.2)
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
    """Lay a figure out once, and round the positions of its axes.

    The last bits of these positions differ between runs of the constrained layout, and SVG hashes them into the
    names of its clip paths.
    """
    figure.draw_without_rendering()
    positions = [(axes, axes.get_position().bounds) for axes in figure.axes]
    figure.set_layout_engine(None)  # with "none", every saving would lay it out once more
    for axes, bounds in positions:
        axes.set_position(tuple(round(value, 6) for value in bounds))


# None leaves out metadata that differ from run to run.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(figure: Figure, outputs: Sequence[Path]) -> None:
    """Write a figure in the format that each file's ending names; the same tables give the same bytes.

    Raises:
        UserError: an ending is not .png, .svg or .pdf.
    """
    for path in outputs:
        if path.suffix not in _METADATA:
            raise UserError(f"--output: {path} must end in {', '.join(_METADATA)}")
    _settle(figure)
    for path in outputs:
        kind = path.suffix
        write_atomically(
            path,
            lambda to, kind=kind: figure.savefig(to, format=kind[1:], dpi=200, metadata=_METADATA[kind]),  # type: ignore[misc]
        )


def svg(figure: Figure) -> str:
    """A figure as the text of an SVG; the same tables give the same text."""
    _settle(figure)
    file = StringIO()
    figure.savefig(file, format="svg", metadata=_METADATA[".svg"])
    return file.getvalue()
