"""The dose of transfer."""

from form_invariance.tables.columns import Schema, flag, integer, number, text

DOSE = Schema(
    "dose",
    {
        "donor": text("format whose activations are transferred"),
        "target": text("format of the run that receives them"),
        "k": integer("circuit size: neurons per layer and format"),
        "kind": text(
            "strength (every shared neuron moves the dose's fraction of the way to the donor's activation), "
            "neurons (the dose's fraction of each layer's shared neurons, the best by mean rank over the formats, "
            "take it), neurons_random (as many shared neurons in a random order)"
        ),
        "seed": integer("draw of the random order; -1 for the other kinds"),
        "dose": number("from 0 (nothing) to 1 (every shared neuron takes the donor's activation)"),
        "pairs": integer("pairs right in the donor and wrong in the target, the denominator of recovered"),
        "n_neurons": integer("neurons that move, over all late layers"),
        "recovered": number("fraction whose output is the right answer"),
        "low": number("Wilson 95 % lower limit of it"),
        "high": number("Wilson 95 % upper limit of it"),
        "normalized_logit": number("mean normalised logit of the right answer"),
        "centered": flag("logits centred over the vocabulary"),
    },
)
