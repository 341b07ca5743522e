"""Interventions on single neurons."""

from form_invariance.tables.columns import NEURON, Schema, number

NEURON_EFFECTS = Schema(
    "neuron_effects",
    {
        **NEURON,
        "knockout_probability": number(
            "probability of the answer with this neuron alone at its mean, minus without"
        ),
        "knockout_normalized_logit": number("the same of the normalised logit"),
        "keep_probability": number(
            "probability of the answer with the circuit alone at work, minus the same without this neuron"
        ),
        "keep_normalized_logit": number("the same of the normalised logit"),
    },
)
