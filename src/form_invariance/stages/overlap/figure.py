"""Overlap of the formats' circuits over circuit size (paper, Figure 3), with chance and ceiling."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASH_DOT, DASHED, DOTTED, Look, line, line_grid, mean, spread
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY, all_formats, of_all_layers
from form_invariance.tables.inputs import Input

INPUTS = {"overlap": Input(OVERLAP, ("operator",)), "reliability": Input(RELIABILITY, ("operator",))}

PARTS_WITHIN = "one format, parts of its prompts (ceiling)"
PARTS_ACROSS = "all formats, part of the prompts each"
LOOKS = {
    "all formats": Look(COLOURS[0], "o", width=1.6),
    PARTS_ACROSS: Look(COLOURS[0], dashes=DASHED),
    PARTS_WITHIN: Look(GREY, dashes=DASHED, width=2.0),
    "other corrupt partners": Look(GREY, dashes=DASH_DOT, width=0.7),
    "chance": Look("black", dashes=DOTTED),
}


def overlap(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each operator: all formats and pairs with intervals; dashed, by parts of the prompts."""
    every = all_formats(tables["overlap"])
    pooled = of_all_layers(tables["overlap"])
    pairs = pooled.drop(every.index)
    again = tables["reliability"]
    by = ["operator", "k"]
    table = pd.concat(
        [
            line(every, "all formats", "jaccard", "low", "high"),
            line(again[again["kind"] == "across_parts"], PARTS_ACROSS, "jaccard"),
            spread(again[again["kind"] == "parts"], by, PARTS_WITHIN, "jaccard"),
            line(pairs, pairs["formats"], "jaccard", "low", "high"),
            mean(again[again["kind"] == "corrupt_seed"], by, "other corrupt partners", "jaccard"),
            line(every, "chance", "chance"),
        ]
    )
    of_pairs = dict.fromkeys(pairs["formats"], Look(COLOURS[5], width=0.7, label="pairs of formats"))
    return line_grid(table, "k", {**LOOKS, **of_pairs}, "Jaccard", title, col="operator").figure
