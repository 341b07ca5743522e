"""Attention heads."""

from form_invariance.tables.columns import Schema, integer, number

HEADS = Schema(
    "heads",
    {
        "layer": integer("layer, from 0"),
        "head": integer("attention head within its layer, from 0"),
        "rank": integer("rank by ie_mean over the heads of all layers, 1 = best"),
        "ie_mean": number("mean over train prompts of the exact indirect effect of the head's last-token output"),
        "ie_std": number("sample standard deviation of the same"),
        "ie_median": number("median of the same"),
        "attention_a": number(
            "attention from the last token to the first operand, mean over train prompts; NaN if it is not a token"
        ),
        "attention_b": number("attention from the last token to the second operand, the same mean"),
        "attention_bos": number("attention from the last token to BOS, the same mean; NaN without BOS"),
    },
)
