"""What a circuit does to other tasks: the damage matrix, and its contrasts."""

from form_invariance.experiment.contrasts import ALL as ALL
from form_invariance.experiment.contrasts import COLUMNS
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, HALVES, MATCHED, described
from form_invariance.tables.columns import Column, Schema, flag, integer, number, text

MOST = 40
"""Right answers wanted of a task that is no operator."""
FEWEST = 20
"""With fewer right answers a task is undefined."""
TRIED, MEANS = 5, 2
"""Prompts of such a task that the model answers at most, and that give the means, for each right answer wanted."""
CONTROLS = tuple(MATCHED)
"""The controls that every circuit is compared with."""
TEXT = "text"
"""The task of predicting the next token of plain text."""
OWN_BEST, CONTROL_OF = "own_best", "_of_"
"""The best neurons in the format of the prompts, and what comes between a control and what it is a control of."""
COMMON, OWN_ONLY, OTHER_ONLY = "common_with_", "not_in_", "only_in_"
"""Before the name of another format: what the own best have in common with its best, and what only either has."""
EXCHANGED = "exchanged_minus_own_beyond_control"
"""The contrast of other formats' best neurons with the format's own, of what either does beyond the control."""
HALF = "half_minus_own_beyond_control"
"""The same of the own best by half of the train prompts: the noise of the ranking."""
ANY_OPERATOR = "exchanged_minus_other_operators_best"
"""The contrast of other formats' best neurons with other operators' best neurons in these formats."""
SPARED = "own_minus_copied_of_own"
"""The contrast of the own operator's damage that copying is spared with all of it, either beyond the control."""
LOSSES = {
    "own_best": "the format's own best",
    "other_formats_best": "other formats' best",
    "other_operators_best": "other operators' best, in other formats",
    "matched": "matched neurons",
    "copying": "the own best, on prompts that copy a number",
}
"""The damages in the figure `losses`, by task in the contrast `LOSS`."""
LOSS = "damage"
"""The contrast of a damage with nothing, for its interval."""
PARTS = {
    COMMON: "common_minus_control",
    OWN_ONLY: "own_only_minus_control",
    OTHER_ONLY: "other_only_minus_control",
}
"""The contrasts of the parts of two formats' best neurons with controls."""
BEYOND = "own_minus_other_beyond_control"
"""The contrast of the damage to the own operator and to others, of what a circuit does beyond its control."""
OTHER_CIRCUITS = "own_minus_other_circuits"
"""The contrast of the operator's circuit with the strongest one of another operator, on the operator's prompts.

Either half of the problems chooses the strongest for the other half.
"""
CIRCUIT_OF = "own_minus_circuit_of"
"""The same with the circuit of one other operator."""
OTHER_OPERATORS, OWN, COPYING = "other_operators", "own", "all_copying"
"""Tasks of the contrasts: the mean over the other operators' prompts, the own operator's, the mean over the tasks
whose answer is a number of the prompt."""

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
    "ratio": number("first / second; NaN where the lower 95 % limit of second is not above 1e-6 (rounding)"),
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
SPECIFICITY_PROMPTS = Schema(
    "specificity_prompts",
    {
        "format": text("format of the prompts"),
        "operator": text("operator whose shared circuit, and its controls, the neurons are"),
        "k": integer("circuit size: neurons per layer and format"),
        "task": text("operator whose eval prompts are answered, or a task of specificity_tasks"),
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
            f"{OTHER_CIRCUITS} (damage by the circuit, and the strongest other operator's, chosen on the other "
            "half of the problems, same prompts), "
            f"{CIRCUIT_OF} (the same with each other operator's circuit), {BEYOND} (own_minus_other of what the "
            f"circuit does beyond that control), {SPARED} (first: {BEYOND} of the task {COPYING}; second: the "
            "own damage beyond control; only the ratio is meant). First - second for keep_only, too: "
            f"{EXCHANGED} (what other formats' best neurons, and the format's own, do beyond the own best's "
            f"control), {HALF} (the same of the own best by half of the prompts), {ANY_OPERATOR} (what other "
            "formats' best and other operators' best in them do), "
            f"{', '.join(PARTS.values())} (parts of two formats' best, and controls), "
            f"{LOSS} (first: by {', '.join(f'{name}: {words}' for name, words in LOSSES.items())}; second: 0)"
        ),
        "task": text(
            f"the other task; for circuit_minus_control the task: {OWN}, another operator, {OTHER_OPERATORS} "
            f"(their mean), a task of specificity_tasks, {COPYING} (the mean of those whose answer is a number of "
            f"the prompt), or text; for {CIRCUIT_OF} the circuit's operator"
        ),
        "metric": text("accuracy, probability or loss"),
        **COLUMNS,
        **RATIO,
    },
    ("model",),
)
