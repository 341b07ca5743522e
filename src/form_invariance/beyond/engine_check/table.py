"""The fast engine against TransformerLens."""

from form_invariance.tables.columns import Schema, flag, integer, number, text

ENGINE_CHECK = Schema(
    "engine_check",
    {
        "format": text("prompt format"),
        "operator": text("operator"),
        "check": text("logits, patch, no_op, attribution, keep_only or transfer"),
        "layer": integer("layer, from 0; -1 = the whole model"),
        "dtype": text("precision of both engines"),
        "status": text("compared, or why TransformerLens cannot run the model"),
        "prompts": integer("train prompts"),
        "values": integer("values that were compared"),
        "difference": number("largest absolute difference of the two engines"),
        "scale": number("largest absolute value that TransformerLens gives"),
        "error": number("largest difference by 1 + |value|; logits, attribution: by the largest of all layers"),
        "tolerance": number("largest error that the model's precision explains"),
        "within": flag("the error is within the tolerance"),
    },
    ("model",),
)
COMPARED = "compared"
