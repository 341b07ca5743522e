"""Overlap of the formats' best attention heads."""

import pandas as pd

from form_invariance.tables.columns import Schema, integer, number, text

ALL, ROUTING = "all", "routing"
"""Whose heads are ranked: every layer's, or those below the first late layer."""

HEAD_OVERLAP = Schema(
    "head_overlap",
    {
        "layers": text("whose heads are ranked: all layers', or routing: those below the first late layer"),
        "ranked": integer("heads of these layers, of which the best are taken"),
        "h": integer("heads that are taken in each format"),
        "formats": text("the formats compared, joined by +"),
        "members": integer("members of the smallest of the compared sets (at most h)"),
        "positive": integer("members with a positive effect, in the format that has the fewest"),
        "intersection": integer("heads in the best h of all of them"),
        "union": integer("heads in the best h of any of them"),
        "jaccard": number("intersection / union"),
        "chance": number("expected Jaccard of random sets of the same size"),
        "low": number("95 % interval's lower limit, by bootstrap over train prompts"),
        "high": number("95 % interval's upper limit"),
        "ceiling": number("mean Jaccard of the best h by disjoint halves of a format's train prompts"),
    },
)


def of_all_formats(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the head overlap table that compare all formats."""
    compared = table["formats"].str.count(r"\+")
    return table[compared == compared.max()]


def middle_size(table: pd.DataFrame) -> int:
    """The number of heads that figure and report speak of: the middle one, of two the larger."""
    sizes = sorted(table["h"].unique())
    return int(sizes[len(sizes) // 2])
