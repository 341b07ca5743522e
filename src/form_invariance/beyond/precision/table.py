"""The ranking in a lower precision."""

from form_invariance.tables.columns import CELL, Schema, integer, number, text

PRECISION = Schema(
    "precision",
    {
        "dtype": text("the precision that is compared with float32"),
        "layer": integer("layer, from 0; -1 = mean over the late layers"),
        "prompts": integer("train prompts of the sample"),
        "candidates": integer("neurons that are ranked"),
        "rank_correlation": number("Spearman's correlation of the mean exact effects"),
        "top": integer("size of the two circuits compared"),
        "overlap": number("share of their neurons that they have in common"),
    },
    CELL,
)
