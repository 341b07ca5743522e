"""Interventions on single neurons, and their direct effects by problem."""

from form_invariance.tables.columns import NEURON, PROBLEM, Schema, flag, integer, number, text

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
DIRECT_EFFECTS = Schema(
    "direct_effects",
    {
        **{name: PROBLEM[name] for name in ("a", "b", "answer", "target", "answer_token", "fields")},
        "predicted_token": integer("the model's most probable next token"),
        "predicted": text("its text"),
        "model_token": integer(
            "the answer to which the model gives the highest logit, among those of all problems"
        ),
        "direct_token": integer("the answer to which the shared neurons together add the most directly"),
        "first": flag("these two are the same"),
    },
)
