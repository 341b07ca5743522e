"""Audit of the first stage."""

from form_invariance.tables.columns import Schema, integer, number, text

AUDIT = Schema(
    "audit",
    {
        "format": text("format"),
        "operator": text("operator"),
        "layer": integer("layer, from 0; -1 = mean over the late layers"),
        "k": integer("circuit size"),
        "candidates": integer("neurons of a layer that the first stage lets through"),
        "recall": number("share of the exact top-k that is among them"),
        "rank_correlation": number("Spearman's correlation of the first stage's score and the exact effect"),
    },
)
