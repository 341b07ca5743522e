"""Overlap of the formats' circuits, and how well each agrees with itself."""

import pandas as pd

from form_invariance.tables.columns import EVERY_LAYER, Schema, flag, integer, number, text

OVERLAP = Schema(
    "overlap",
    {
        "k": integer("circuit size: neurons per layer and format"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers"),
        "formats": text("the formats compared, joined by +"),
        "membership": text("which of the top k are members: positive (effect above 0) or top_k (effect not 0)"),
        "used": flag("the configured rule, which the circuit and all later stages use"),
        "members": integer("members of the smallest of the compared sets (at most k a layer)"),
        "positive": integer("members with a positive effect, in the format that has the fewest"),
        "intersection": integer("neurons that are members in all of them"),
        "union": integer("neurons that are members in any of them"),
        "jaccard": number("intersection / union; NaN where no set has a member"),
        "chance": number("expected Jaccard of random sets of the same sizes"),
        "low": number(
            "lower 95 % limit: normal, with the standard error of a bootstrap over train prompts (pooled rows)"
        ),
        "high": number("upper 95 % limit (pooled rows)"),
    },
)
RELIABILITY = Schema(
    "reliability",
    {
        "k": integer("circuit size: neurons per layer"),
        "format": text("format; across_parts: the formats compared, joined by +"),
        "kind": text(
            "what is compared within the format: split_half (disjoint halves of the train prompts), parts (as "
            "many disjoint parts as there are formats), corrupt_seed (other corrupt partners), median or "
            "trimmed_mean (ranked so instead of by the mean); across_parts: all formats, each by such a part"
        ),
        "jaccard": number("mean Jaccard of the top-k sets, pooled over the late layers"),
        "low": number("2.5 % percentile over repeats"),
        "high": number("97.5 % percentile over repeats"),
    },
)


def of_all_layers(overlap: pd.DataFrame) -> pd.DataFrame:
    """The pooled rows of an overlap table, by the rule of membership that the circuit uses."""
    return overlap[(overlap["layer"] == EVERY_LAYER) & overlap["used"]]


def all_formats(overlap: pd.DataFrame) -> pd.DataFrame:
    """The pooled rows of an overlap table that compare all formats, by the rule that the circuit uses."""
    pooled = of_all_layers(overlap)
    compared = pooled["formats"].str.count(r"\+")
    return pooled[compared == compared.max()]
