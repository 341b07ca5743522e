"""Overlap of the formats' best attention heads."""

import pandas as pd

from form_invariance.tables.columns import COMPARED_SETS, Schema, integer, number, text

ALL, ROUTING = "all", "routing"
"""Whose heads are ranked: every layer's, or those below the first late layer."""

HEAD_OVERLAP = Schema(
    "head_overlap",
    {
        "layers": text("whose heads are ranked: all layers', or routing: those below the first late layer"),
        "ranked": integer("heads of these layers, of which the best are taken"),
        "h": integer("heads that are taken in each format"),
        "formats": text("the formats compared, joined by +"),
        **COMPARED_SETS,
        "ceiling": number("mean Jaccard of the best h by disjoint halves of a format's train prompts"),
    },
)


def middle_size(table: pd.DataFrame) -> int:
    """The number of heads that figure and report speak of: the middle one, of two the larger."""
    sizes = sorted(table["h"].unique())
    return int(sizes[len(sizes) // 2])
