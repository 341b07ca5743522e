"""Single neurons: knockout, the tokens that they promote, and their activations by row of a table of words."""

from form_invariance.tables.columns import CELL, NEURON, PROBLEM, Schema, integer, number, text

NEURON_EFFECTS = Schema(
    "neuron_effects",
    {
        **NEURON,
        "knockout_probability": number(
            "probability of the answer with this neuron alone at its mean, minus the unmodified model's"
        ),
    },
    CELL,
)
PROMOTED_TOKENS = Schema(
    "promoted_tokens",
    {
        **NEURON,
        "direction": text("promotes or suppresses"),
        "rank": integer("rank of the token among those that the neuron promotes (suppresses), 1 = most"),
        "token": integer("token id"),
        "text": text("the token's text"),
        "logit": number(
            "what one unit of the neuron adds to the token's logit past all later layers, centred over the "
            "vocabulary; the final norm's weights are folded in, its scale is not"
        ),
    },
    ("model",),
)
ROW_ACTIVATIONS = Schema(
    "row_activations",
    {
        **NEURON,
        "row": integer("number of the table's row, from 0"),
        **{name: PROBLEM[name] for name in ("fields", "target")},
        "activation": number("the neuron's activation at the last token of the row's prompt"),
    },
    CELL,
)
