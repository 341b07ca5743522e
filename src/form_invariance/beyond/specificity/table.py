"""What a circuit does to other tasks: the damage matrix."""

from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    COMMON,
    CONTROL_OF,
    HALVES,
    MATCHED,
    OTHER_ONLY,
    OWN_BEST,
    OWN_ONLY,
    described,
)
from form_invariance.tables.columns import Column, Schema, flag, integer, number, text

MOST = 40
"""Right answers wanted of a task that is no operator."""
FEWEST = 20
"""With fewer right answers a task is undefined."""
TRIED, MEANS = 5, 2
"""Prompts of such a task that the model answers at most, and that give the means, for each right answer wanted."""
CONTROLS = tuple(MATCHED)
"""The controls that every circuit is compared with."""
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


SPECIFICITY = Schema(
    "specificity",
    {
        "format": text("format of the prompts"),
        "operator": text("operator whose shared circuit it is"),
        "k": integer("circuit size: neurons per layer and format"),
        "intervention": text("keep_only or knockout, at the last token"),
        "task": text("an operator (its eval prompts), a task of specificity_tasks, or text (next token)"),
        "neurons": text(
            f"{described(CIRCUIT, *CONTROLS)}, {BEST_IN}FORMAT (the operator's best k of every layer in this "
            f"format), {COMMON}FORMAT, {OWN_ONLY}FORMAT, {OTHER_ONLY}FORMAT (of the best in the format of the "
            "prompts and in this one: both, the first alone, the second alone), "
            f"{HALVES[0]}SET and {HALVES[1]}SET ({CIRCUIT} and best, ranked anew by either half of the train "
            "prompts), "
            f"CONTROL{CONTROL_OF}SET (controls of {OWN_BEST} and of these parts)"
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
