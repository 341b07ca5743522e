"""Agreement of the formats' heuristics, and correlation of their activations."""

from form_invariance.tables.columns import NEURON, Schema, integer, number, text

_LABELS = {
    "mode": text("reference or strict labels"),
    "kind": text("shared neurons, or what they are compared with: neurons of the heuristics table"),
    "activations": text("labels of observed or of shuffled activations"),
}
AGREEMENT = Schema(
    "agreement",
    {
        **_LABELS,
        "over": text("shared (all of them), any (labelled in some format) or all (labelled in every format)"),
        "scope": text("where the null permutes family sets: all neurons, or within each layer"),
        "neurons": integer("how many neurons, the denominator"),
        "statistic": text("common, exact, pair_jaccard or three_way_jaccard (of all formats)"),
        "observed": number("the statistic; NaN where there is no neuron"),
        "null_mean": number("its mean over the permutations"),
        "null_max": number("its maximum over the permutations"),
        "p": number("(1 + permutations at least as large) / (1 + permutations)"),
    },
    ("model", "operator"),
)
LABELLED = Schema(
    "labelled",
    {
        **_LABELS,
        "formats": integer("number of formats"),
        "neurons": integer("neurons of the kind that are labelled in exactly this number of formats"),
    },
    ("model", "operator"),
)
ACTIVATION_CORRELATION = Schema(
    "activation_correlation",
    {
        "kind": _LABELS["kind"],
        **NEURON,
        "formats": text("two formats, joined by +"),
        "correlation": number("Pearson's, of its activations on the same pairs; NaN if constant in a format"),
    },
    ("model", "operator"),
)
