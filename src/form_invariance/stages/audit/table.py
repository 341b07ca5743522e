"""Audit of the methods that estimate the neurons' effects."""

from form_invariance.tables.columns import Schema, integer, number, text

AUDIT = Schema(
    "audit",
    {
        "format": text("format"),
        "operator": text("operator"),
        "method": text("how the effects are estimated: a `ranking_method`"),
        "layer": integer("layer, from 0; -1 = over the late layers"),
        "k": integer("circuit size"),
        "candidates": integer("neurons of a layer that the method lets through"),
        "recall": number("share of the exact top-k that is among them; mean over the layers"),
        "rank_correlation": number("Spearman's correlation of the estimate and the exact effect"),
        "enough": number("fewest candidates with a recall of 0.99"),
    },
)

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
)
