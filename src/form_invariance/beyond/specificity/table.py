"""What a circuit does to other tasks: the damage matrix, and its contrasts."""

from form_invariance.experiment.contrasts import ALL as ALL
from form_invariance.experiment.contrasts import COLUMNS
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, MATCHED, described
from form_invariance.tables.columns import Column, Schema, flag, integer, number, text

CONTROLS = tuple(MATCHED)
"""The controls that every circuit is compared with."""
TEXT = "text"
"""The task of predicting the next token of plain text."""
EXCHANGED = "exchanged_minus_own_beyond_control"
"""The contrast of other formats' best neurons with the format's own, of what either does beyond the control."""
BEYOND = "own_minus_other_beyond_control"
"""The contrast of the damage to the own operator and to others, of what a circuit does beyond its control."""
OTHER_CIRCUITS = "own_minus_other_circuits"
"""The contrast of the operator's circuit with the other operators' circuits, on the operator's prompts."""
OTHER_OPERATORS, OWN = "other_operators", "own"
"""Tasks of the contrasts: the mean over the other operators' prompts, and the circuit's own operator's prompts."""

METRICS = {
    "accuracy": "fraction of prompts whose most probable token is the answer",
    "probability": "mean probability of the answer",
    "normalized_logit": "mean of logit[answer] / largest logit",
    "loss": "mean of -log p(answer), nats per token",
}
"""What is measured on every task. Of all but the loss, less is worse."""


def _damages() -> dict[str, Column]:
    """Four columns for each metric."""
    columns = {}
    for name, meaning in METRICS.items():
        change = "ablated - unmodified" if name == "loss" else "unmodified - ablated"
        columns[name] = number(f"{meaning}, ablated")
        columns[f"{name}_damage"] = number(change)
        columns[f"{name}_low"] = number("2.5 % bootstrap percentile of the damage over prompts")
        columns[f"{name}_high"] = number("97.5 % bootstrap percentile of the damage over prompts")
    return columns


RATIO = {
    "ratio": number("first / second; NaN where the lower 95 % limit of second is not above zero"),
    "ratio_low": number("95 % lower limit of the ratio"),
    "ratio_high": number("95 % upper limit of the ratio"),
    "ratio_error": number("Monte Carlo standard error of these limits, the larger of the two"),
}
_CIRCUIT = {
    "format": text("format of the prompts; in contrasts also all"),
    "operator": text("operator whose shared circuit it is; in contrasts also all"),
    "k": integer("circuit size: neurons per layer and format"),
    "intervention": text("keep_only or knockout, at the last token"),
}
SPECIFICITY = Schema(
    "specificity",
    {
        **_CIRCUIT,
        "task": text("an operator (its eval prompts), a task of specificity_tasks, or text (next token)"),
        "neurons": text(
            f"{described(CIRCUIT, *CONTROLS)}, {BEST_IN}FORMAT (the operator's best neurons in this format); as "
            "many of each in every layer"
        ),
        "seed": integer("draw of the control; else -1"),
        "n_neurons": integer("neurons kept or knocked out, over all late layers"),
        "prompts": integer("prompts that the unmodified model answers correctly; text: predicted tokens"),
        "undefined": text("why nothing is measured; empty where it is"),
        **_damages(),
        "centered": flag("logits centred over the vocabulary"),
    },
    ("model",),
)
SPECIFICITY_PROMPTS = Schema(
    "specificity_prompts",
    {
        "format": text("format of the prompts"),
        "operator": text("operator whose shared circuit, and its controls, the neurons are"),
        "k": integer("circuit size: neurons per layer and format"),
        "task": text("operator whose eval prompts are answered"),
        "neurons": text("as in the specificity table; sets without neurons have no rows"),
        "seed": integer("draw of the control; else -1"),
        "a": integer("smaller operand; of a table -1"),
        "b": integer("larger operand; of a table the number of the row"),
        "intervention": text("keep_only or knockout, at the last token"),
        "lost": integer(
            "1 if the answer is right before the intervention and wrong after it, -1 the reverse, else 0"
        ),
        "probability": number("probability of the answer before the intervention - after it"),
    },
    ("model",),
)
SPECIFICITY_CONTRASTS = Schema(
    "specificity_contrasts",
    {
        **_CIRCUIT,
        "contrast": text(
            "first and second are mean damages; the difference is second - first for keep_only, so above zero is "
            "specific: own_minus_other (the circuit's damage to its own operator, and to another task), "
            "circuit_minus_control (damage by the circuit and by its strongest matched control, same prompts), "
            "exchanged_minus_own_beyond_control (what the other formats' best neurons, and the format's own, do "
            "beyond that control: more damage for knockout, less for keep_only, here first - second), "
            "own_minus_other_circuits (damage by the circuit, and by the other operators', same prompts), "
            "or own_minus_other_beyond_control (own_minus_other of what the circuit does beyond that control)"
        ),
        "task": text(
            "the other task; for circuit_minus_control the task: own, another operator, other_operators (their "
            "mean), a task of specificity_tasks, or text"
        ),
        "metric": text("accuracy, probability or loss"),
        **COLUMNS,
        **RATIO,
    },
    ("model",),
)
