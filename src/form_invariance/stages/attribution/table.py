"""Attribution, the first stage."""

from form_invariance.tables.columns import CELL, NEURON, Schema, flag, integer, number

ATTRIBUTION = Schema(
    "attribution",
    {
        **NEURON,
        "mean": number("mean over train prompts of the estimated effect"),
        "std": number("sample standard deviation of the same"),
        "score": number("mean + std, the stage-1 score"),
        "rank": integer("rank by score within the layer, 1 = best"),
        "candidate": flag("goes on to exact patching"),
    },
    CELL,
)
