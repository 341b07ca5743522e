"""Overlap of the formats' circuits, and its ceiling."""

from form_invariance.schemas.columns import Schema, integer, number, text

OVERLAP = Schema(
    "overlap",
    {
        "k": integer("circuit size: neurons per layer and format"),
        "layer": integer("layer, from 0; -1 = pooled over the late layers"),
        "formats": text("the formats compared, joined by +"),
        "intersection": integer("neurons in the top-k of all of them"),
        "union": integer("neurons in the top-k of any of them"),
        "jaccard": number("intersection / union"),
        "chance": number("expected Jaccard of random sets of the same size"),
        "low": number("2.5 % bootstrap percentile over train prompts (pooled rows)"),
        "high": number("97.5 % bootstrap percentile over train prompts (pooled rows)"),
    },
)
RELIABILITY = Schema(
    "reliability",
    {
        "k": integer("circuit size: neurons per layer"),
        "format": text("format"),
        "kind": text(
            "what is compared within the format: split_half (disjoint halves of the train prompts), "
            "corrupt_seed (other corrupt partners), median or trimmed_mean (ranked so instead of by the mean)"
        ),
        "jaccard": number("mean Jaccard of the two top-k sets, pooled over the late layers"),
        "low": number("2.5 % percentile over repeats"),
        "high": number("97.5 % percentile over repeats"),
    },
)
