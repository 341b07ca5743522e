"""Overlap of the circuits of two wordings of one format and of two formats, over circuit size."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from form_invariance.drawing.lines import DASHED, DOTTED, Look, line_grid, mean, spread
from form_invariance.drawing.style import COLOURS, ONE_COLUMN, TWO_COLUMNS
from form_invariance.stages.paraphrases.table import PARAPHRASES, one_ending, one_format, two_templates
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"paraphrases": Input(PARAPHRASES, ("operator",))}

# Where two lines agree, the wider one shows on both sides of the narrower one.
LOOKS = {
    "two wordings of one format": Look(COLOURS[0], "o"),
    "one of these wordings with itself": Look(COLOURS[0], dashes=DASHED, width=0.8),
    "two wordings, the same problems": Look(COLOURS[0], width=0.6),
    "two formats, the same last token": Look(COLOURS[2], "^", width=0.8),
    "one of these with itself": Look(COLOURS[2], dashes=DOTTED, width=0.8),
    "two formats": Look(COLOURS[1], "s", width=2.2),
    "one of these formats with itself": Look(COLOURS[1], dashes=DASHED, width=1.4),
    "chance": Look("black", dashes=DOTTED),
}


def paraphrases(tables: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """One panel for each operator: mean and range by disjoint halves of the prompts, ceilings, and chance."""
    table = tables["paraphrases"][tables["paraphrases"]["layer"] == EVERY_LAYER]
    measured = table[one_format(table) & (table["prompts"] > 0)]
    compared = {
        ("two wordings of one format", "one of these wordings with itself"): measured,
        ("two formats, the same last token", "one of these with itself"): table[one_ending(table)],
        ("two formats", "one of these formats with itself"): table[two_templates(table)],
    }
    by = ["operator", "k"]
    lines = [
        mean(measured, by, "two wordings, the same problems", "jaccard"),
        mean(table, by, "chance", "chance"),
    ]
    for (name, itself), rows in compared.items():
        lines += [spread(rows, by, name, "across_halves"), mean(rows, by, itself, "within_halves")]
    width = TWO_COLUMNS if table["operator"].nunique() > 1 else ONE_COLUMN
    grid = line_grid(pd.concat(lines), "k", LOOKS, "Jaccard", title, col="operator", width=width, height=1.8)
    for operator, axes in grid.axes_dict.items():
        axes.set_title(operator, pad=12)
        shown = _prompts(table[one_format(table) & (table["operator"] == operator)])
        axes.text(0.03, 1.0, shown, transform=axes.transAxes, va="bottom", fontsize=6)
    return grid.figure


def _prompts(wordings: pd.DataFrame) -> str:
    """How many prompts rank each wording, and in how many pairs of wordings there are enough."""
    pairs = wordings.drop_duplicates(["first_format", "first", "second"])
    used = pairs.loc[pairs["prompts"] > 0, "prompts"]
    if used.empty:
        return "too few prompts"
    shown = f"{used.min()} to {used.max()} prompts"
    return shown if len(used) == len(pairs) else f"{shown}, {len(used)} of {len(pairs)} pairs"
