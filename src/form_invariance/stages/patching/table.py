"""The ranking by exact effect."""

from form_invariance.tables.columns import CELL, NEURON, Schema, integer, number

RANKING = Schema(
    "ranking",
    {
        **NEURON,
        "rank": integer("rank by ie_mean within the layer, 1 = best"),
        "ie_mean": number("mean exact effect over train prompts (`ranking: probability`: fall of probability)"),
        "ie_std": number("sample standard deviation of the same"),
        "probability_change": number("mean change of the clean answer's probability by the patch"),
        "attribution_score": number("stage-1 score"),
        "attribution_rank": integer("stage-1 rank within the layer"),
    },
    CELL,
)
