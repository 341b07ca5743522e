"""Single neurons: knockout, the tokens that they promote, and their activations by row of a table of words."""

from form_invariance.tables.columns import CELL, NEURON, PROBLEM, Schema, integer, number, text

NEURON_EFFECTS = Schema(
    "neuron_effects",
    {
        **NEURON,
        "knockout_probability": number("change of the answer's probability with only this neuron at its mean"),
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
        "logit": number("logit that a unit of the neuron adds directly; centred, without the final norm's scale"),
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
