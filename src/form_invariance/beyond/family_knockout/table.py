"""What a label predicts: on which prompts its neurons matter."""

from form_invariance.experiment.contrasts.engine import COLUMNS
from form_invariance.tables.columns import Schema, integer, number, text

LOSSES = {
    "accuracy": "fraction of prompts whose most probable token is the answer",
    "probability": "mean probability of the answer",
    "normalized_logit": "mean of logit[answer] / largest logit",
}

FAMILY_KNOCKOUT = Schema(
    "family_knockout",
    {
        "format": text("format of the prompts; all in rows over all cells"),
        "operator": text("operator of the prompts; all in rows over all cells"),
        "k": integer("circuit size: neurons per layer and format"),
        "neurons": text("shared, matched_variance or matched_effect (the last two are not shared)"),
        "family": text("family of the labels; all: every label of a neuron"),
        "labelled": integer("neurons with a strict label of the family in this format; the sum over cells"),
        "ablated": number("mean number of neurons ablated in such a prompt, the same for both kinds"),
        "metric": text(
            "; ".join(f"{name} ({meaning})" for name, meaning in LOSSES.items())
            + ". first: loss by neurons whose rule holds for the prompt; second: by those whose rule does not"
        ),
        **COLUMNS,
    },
    ("model",),
)
