"""Transfer of activations between formats."""

from form_invariance.tables.columns import Schema, flag, integer, number, text

TRANSFER = Schema(
    "transfer",
    {
        "donor": text("format whose activations are transferred"),
        "target": text("format of the run that receives them"),
        "k": integer("circuit size: neurons per layer and format"),
        "condition": text(
            "matched (same operands), mismatched (another pair), random (other neurons), same_answer "
            "(other operands, equal answer), same_format (another pair, target's own format), harm_matched, "
            "harm_random (pairs right in both formats)"
        ),
        "pairs": integer("pairs, the denominator of every rate of the row"),
        "n_neurons": integer("neurons transferred, over all late layers"),
        "recovered": number("fraction whose output is the right answer (harm: whose output is wrong)"),
        "low": number("Wilson 95 % lower limit of it"),
        "high": number("Wilson 95 % upper limit of it"),
        "donor_answer": number("fraction whose output is the donor's answer"),
        "normalized_logit_before": number("mean normalised logit of the right answer before"),
        "normalized_logit_after": number("mean normalised logit of the right answer after"),
        "centered": flag("logits centred over the vocabulary"),
    },
)
