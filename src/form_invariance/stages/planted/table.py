"""Models whose circuit was built by hand."""

from form_invariance.tables.columns import Schema, integer, number, text

PLANTED = Schema(
    "planted",
    {
        "circuit": text("shared: the planted neurons serve every format; separate: each format has its own"),
        "format": text("format; all = over the formats; transfer: DONOR_to_TARGET"),
        "layer": integer("layer, from 0; -1 = over the late layers"),
        "measure": text(
            "first_stage, ranking (share of the planted neurons among a stage's first, as many as are planted: "
            "recall and precision in one), overlap (Jaccard of the formats' best), keep_only, knockout "
            "(faithfulness), transfer (share of wrong answers that become right)"
        ),
        "of": integer("neurons (overlap: their union), eval prompts or pairs: the denominator"),
        "expected": number("the value by construction; NaN where nothing is shared that could be transferred"),
        "value": number("the value that the pipeline found"),
        "low": number("its 95 % lower limit"),
        "high": number("its 95 % upper limit"),
        "random": number("the same of as many random neurons; first_stage, ranking, overlap: by chance"),
    },
)
