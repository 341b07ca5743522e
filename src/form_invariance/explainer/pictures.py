"""The pictures of the explained page: small figures in the style of all others, as SVG inside the page."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from form_invariance.drawing import style
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.stages.heuristics.map_files import ActivationMaps

WIDTH = 4.4
"""Inches. The page shows a picture as wide as a phone, or half as wide again."""
_COLUMNS = 3
_PICTURES = {"keep_only": "only these neurons work", "knockout": "these neurons are knocked out"}


def effects_picture(effects: pd.DataFrame, neuron: int) -> Figure:
    """Step 2: a layer's neurons in order of effect, the best in colour, the given neuron with a ring.

    Args:
        effects: columns rank, ie_mean, best, neuron.
    """
    figure, ((axes,),) = style.panels(1, 1, width=WIDTH, height=1.9)
    axes.axhline(0, color=style.LIGHT, lw=0.8)
    for best, colour, width in ((False, style.GREY, 1.2), (True, style.COLOURS[0], 3)):
        sns.lineplot(effects[effects["best"] == best], x="rank", y="ie_mean", color=colour, lw=width, ax=axes)
    ringed = effects[effects["neuron"] == neuron]
    axes.plot(ringed["rank"], ringed["ie_mean"], "o", ms=9, mfc="none", mec=style.COLOURS[1], mew=1.6)
    axes.set(xlabel="place of the neuron in its layer", ylabel="mean effect")
    return figure


def members_picture(members: pd.DataFrame) -> Figure:
    """Step 3: a row for each format, a column for each neuron, filled where it is a member; shared ones in colour.

    Args:
        members: bool, (formats, neurons).
    """
    held = members.to_numpy()
    shade = held.astype(int) * (1 + held.all(axis=0))
    figure, ((axes,),) = style.panels(1, 1, width=WIDTH, height=0.35 + 0.32 * len(members))
    colours = ListedColormap(["white", style.LIGHT, style.COLOURS[0]])
    axes.imshow(shade, cmap=colours, vmin=0, vmax=2, aspect="auto", interpolation="nearest")
    axes.hlines(np.arange(1, len(members)) - 0.5, -0.5, held.shape[1] - 0.5, color="white", lw=3)
    axes.set_yticks(range(len(members)), members.index)
    axes.set_xlabel(f"{held.shape[1]} neurons that are among the best of some format")
    axes.set_xticks([])
    return figure


def ablations_picture(table: pd.DataFrame) -> Figure:
    """Step 4: every intervention on each set of neurons, a dot a draw, with the shared neurons' intervals.

    Args:
        table: columns intervention, format, set, value, low, high.
    """
    sets, formats = list(table["set"].unique()), list(table["format"].unique())
    colours, markers = style.colours(formats), style.markers(formats)
    figure, (panels,) = style.panels(1, len(INTERVENED), width=WIDTH, height=0.6 + 0.1 * len(sets) * len(formats))
    # The formats' rows of one set are next to each other.
    offsets = dict(zip(formats, np.linspace(-0.28, 0.28, len(formats)), strict=True))
    for axes, intervention in zip(panels, INTERVENED, strict=True):
        done = table[table["intervention"] == intervention]
        for name in formats:
            rows = done[done["format"] == name]
            y = rows["set"].map(sets.index) + offsets[name]
            axes.hlines(y, rows["low"], rows["high"], color=colours[name], lw=1.6)
            axes.plot(rows["value"], y, markers[name], color=colours[name], ms=3.6, label=name)
        for edge in range(1, len(sets)):
            axes.axhline(edge - 0.5, color=style.LIGHT, lw=0.4)
        axes.set(
            title=_PICTURES[intervention], ylim=(len(sets) - 0.5, -0.5), yticks=range(len(sets)), yticklabels=[]
        )
        axes.set_xlabel("probability of\nthe right answer")
        axes.xaxis.set_major_locator(MaxNLocator(4))
    panels[0].set_yticklabels([name.replace(" of ", "\nof ") for name in sets])
    style.legend_below(figure, panels[0].get_legend_handles_labels()[0])
    return figure


def maps_picture(maps: Mapping[str, ActivationMaps], neuron: tuple[int, int]) -> Figure:
    """Step 5: a neuron's activation for every pair of operands in every format, on one scale of colours."""
    values = {name: _grid(format_maps, neuron) for name, format_maps in maps.items()}
    low, high = (pick([pick(grid[np.isfinite(grid)]) for grid in values.values()]) for pick in (min, max))
    columns = min(_COLUMNS, len(values))
    rows = math.ceil(len(values) / columns)
    figure, panels = style.panels(rows, columns, width=WIDTH, height=1.4)
    for axes in panels.flat[len(values) :]:
        axes.set_axis_off()
    for axes, (name, grid) in zip(panels.flat, values.items(), strict=False):
        image = axes.imshow(grid.T, origin="lower", cmap="cividis", vmin=low, vmax=high, interpolation="nearest")
        axes.set(title=name, xlabel="a")
    for axes in panels[:, 0]:
        axes.set_ylabel("b", rotation=0)
    figure.colorbar(image, ax=panels, label="activation", shrink=0.8)
    return figure


def _grid(maps: ActivationMaps, neuron: tuple[int, int]) -> np.ndarray:
    """A neuron's activations by operands, (a, b); NaN for pairs that are not asked."""
    neuron_mask = (maps.neurons["layer"] == neuron[0]) & (maps.neurons["neuron"] == neuron[1])
    grid = np.full((maps.a.max() + 1, maps.b.max() + 1), np.nan)
    grid[maps.a, maps.b] = maps.maps[int(np.flatnonzero(neuron_mask)[0])]
    return grid


def formats_picture(ranking: pd.DataFrame, neuron: tuple[int, int], k: int) -> Figure:
    """Step 5 without maps: a neuron's effect in each format, and that of the last of its layer's best k.

    Args:
        ranking: of every format, with the column format.
    """
    layer, number = neuron
    layer_rows = ranking[ranking["layer"] == layer]
    last, neuron_rows = layer_rows[layer_rows["rank"] == k], layer_rows[layer_rows["neuron"] == number]
    figure, ((axes,),) = style.panels(1, 1, width=WIDTH, height=0.5 + 0.22 * len(last))
    axes.plot(
        last["ie_mean"], last["format"], "|", color=style.GREY, ms=16, mew=1.5, label=f"place {k} of the layer"
    )
    axes.plot(
        neuron_rows["ie_mean"], neuron_rows["format"], "o", color=style.COLOURS[0], ms=7, label=f"neuron {number}"
    )
    axes.set(xlabel="mean effect", ylim=(len(last) - 0.5, -0.5))
    style.legend_below(figure, axes.get_legend_handles_labels()[0])
    return figure
