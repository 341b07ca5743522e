"""Overlap of the formats' circuits over circuit size (paper, Figure 3), with chance and ceiling."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing import style
from form_invariance.drawing.lines import (
    DASH_DOT,
    DASHED,
    DOTTED,
    Look,
    legend_handles,
    line,
    line_grid,
    line_plot,
    mean,
    spread,
)
from form_invariance.drawing.style import COLOURS, GREY
from form_invariance.stages.overlap.table import (
    BOTH,
    DIFFERING,
    FORMAT,
    INVARIANCE,
    NOTHING,
    OPERATOR,
    OPERATOR_OVERLAP,
    OVERLAP,
    OVERLAPS,
    RELIABILITY,
    SHUFFLED,
    WORDING,
    all_formats,
    of_all_layers,
    with_another,
)
from form_invariance.tables.columns import ALL

INPUTS = {
    "overlap": {"overlap": OVERLAP, "reliability": RELIABILITY, "operator_overlap": OPERATOR_OVERLAP},
    "differing": {"differing": DIFFERING},
}
"""The tables of each figure."""

PARTS_WITHIN = "one format, parts of its prompts (ceiling)"
OTHER_OPERATOR = "another operator, same format"
PARTS_ACROSS = "all formats, part of the prompts each"
LOOKS = {
    "all formats": Look(COLOURS[0], "o", width=2.0),
    PARTS_ACROSS: Look(COLOURS[2], dashes=DASHED),
    PARTS_WITHIN: Look(GREY, dashes=DASHED, width=2.0),
    "other corrupt partners": Look(GREY, dashes=DASH_DOT, width=0.7),
    OTHER_OPERATOR: Look(COLOURS[1], "s"),
    "chance_neurons": Look("black", dashes=DOTTED, label="all formats by chance: random neurons"),
    "chance_candidates": Look("black", dashes=DASH_DOT, label="all formats by chance: random candidates"),
    "two_candidates": Look("black", dashes=DASH_DOT, width=0.6, label="two formats by chance: random candidates"),
}

DIFFER = {
    NOTHING: Look(GREY, dashes=DASHED, width=2.0, label="nothing: other prompts of the same cell (ceiling)"),
    WORDING: Look(COLOURS[2], "D", width=0.6, label="the wording: a template and its variants"),
    FORMAT: Look(COLOURS[0], "o", width=2.0, label="the format"),
    OPERATOR: Look(COLOURS[1], "s", label="the operator"),
    BOTH: Look("black", "^", dashes=DOTTED, label="both"),
    SHUFFLED: Look("black", dashes=DOTTED, width=0.7, label="nothing, but effects shuffled over the candidates"),
}


def differing(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """Overlap of two cells by what differs between them, and the operator-specific invariance."""
    table = tables["differing"]
    table = table[table["operators"] == ALL]
    figure, ((left, right),) = style.panels(1, 2, height=2.0)
    figure.suptitle(f"{title}: do formats share more of one operator than of different ones?")
    overlaps = table[table["quantity"].isin([OVERLAPS, SHUFFLED])]
    overlaps = overlaps.assign(name=overlaps["differs"].mask(overlaps["quantity"] == SHUFFLED, SHUFFLED))
    invariance = table[table["quantity"] == INVARIANCE]
    if len(overlaps):
        line_plot(left, line(overlaps, overlaps["name"], "value", "low", "high"), DIFFER)
    if len(invariance):
        look = {INVARIANCE: Look(COLOURS[0], "o", width=1.6)}
        line_plot(right, line(invariance, INVARIANCE, "value", "low", "high"), look)
        # A size between undefined ones has no band.
        right.vlines(invariance["k"], invariance["low"], invariance["high"], color=COLOURS[0], lw=1.0)
    left.set(xlabel="neurons per layer, k", ylabel="Jaccard of two cells", ylim=(0, None))
    left.set_title("overlap by what differs, 95 % intervals")
    right.set(xlabel="neurons per layer, k", ylabel="(format − both)\n/ (nothing − both)", ylim=(-0.3, 1.3))
    right.set_title("operator-specific invariance, 95 % intervals")
    if withheld := ", ".join(map(str, invariance.loc[invariance["value"].isna(), "k"])):
        reason = f"not given at k = {withheld}: the ceiling is largely chance"
        right.text(0.02, 0.02, reason, fontsize=6, transform=right.transAxes)
    for at, meaning in ((0, "formats share nothing of an operator's own"), (1, "another format costs nothing")):
        right.axhline(at, color="black", lw=0.6, zorder=0.5)
        right.text(0.02, at - 0.04, meaning, va="top", fontsize=6, transform=right.get_yaxis_transform())
    drawn = set(overlaps["name"]) | {NOTHING, FORMAT, OPERATOR, BOTH}
    style.legend_below(figure, legend_handles({name: look for name, look in DIFFER.items() if name in drawn}))
    return figure


def overlap(tables: Mapping[str, pd.DataFrame], title: str, k: int) -> Figure:
    """One panel for each operator: all formats and pairs of them, with intervals; dashed: by parts of the prompts.

    The overlap of two operators in one format is drawn for comparison with the pairs of formats.
    """
    all_format_rows = all_formats(tables["overlap"])
    pooled = of_all_layers(tables["overlap"])
    pairs = pooled.drop(all_format_rows.index)
    again = tables["reliability"]
    by = ["operator", "k"]
    others = with_another(tables["operator_overlap"])
    table = pd.concat(
        [
            line(all_format_rows, "all formats", "jaccard", "low", "high"),
            line(again[again["kind"] == "across_parts"], PARTS_ACROSS, "jaccard"),
            spread(again[again["kind"] == "parts"], by, PARTS_WITHIN, "jaccard"),
            line(pairs, pairs["formats"], "jaccard", "low", "high"),
            mean(again[again["kind"] == "corrupt_seed"], by, "other corrupt partners", "jaccard"),
            spread(others, by, OTHER_OPERATOR, "jaccard"),
            *(line(all_format_rows, name, name) for name in ("chance_neurons", "chance_candidates")),
            mean(pairs, by, "two_candidates", "chance_candidates"),
        ]
    )
    of_pairs = dict.fromkeys(pairs["formats"], Look(COLOURS[5], width=0.7, label="pairs of formats"))
    heading = f"{title}: overlap of the formats' best neurons"
    return line_grid(table, "k", {**LOOKS, **of_pairs}, heading, ylabel="Jaccard", col="operator").figure
