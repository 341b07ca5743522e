"""Attention heads."""

from form_invariance.tables.columns import Schema, integer, number, text

HEADS = Schema(
    "heads",
    {
        "layer": integer("layer, from 0"),
        "head": integer("attention head within its layer, from 0"),
        "rank": integer("rank by ie_mean over the heads of all layers, 1 = best"),
        "ie_mean": number("mean over train prompts of the exact indirect effect of the head's last-token output"),
        "ie_std": number("sample standard deviation of the same"),
        "ie_median": number("median of the same"),
        "attention_a": number("attention from the last token to the first operand, mean over train prompts"),
        "attention_b": number("attention from the last token to the second operand, the same mean"),
        "attention_bos": number("attention from the last token to BOS, the same mean; NaN without BOS"),
    },
)
HEAD_OVERLAP = Schema(
    "head_overlap",
    {
        "layers": text("whose heads are ranked: all layers', or routing: those below the first late layer"),
        "ranked": integer("heads of these layers, of which the best are taken"),
        "h": integer("heads that are taken in each format"),
        "formats": text("the formats compared, joined by +"),
        "intersection": integer("heads in the best h of all of them"),
        "union": integer("heads in the best h of any of them"),
        "jaccard": number("intersection / union"),
        "chance": number("expected Jaccard of random sets of the same size"),
        "low": number("95 % interval's lower limit, by bootstrap over train prompts"),
        "high": number("95 % interval's upper limit"),
        "ceiling": number("mean Jaccard of the best h by disjoint halves of a format's train prompts"),
    },
)
