"""What neurons do to each prompt: the tables by prompt of interventions, dose, specificity and transfer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from form_invariance.experiment.neuron_sets import (
    BEST_IN,
    CIRCUIT,
    CONTROL_OF,
    HALVES,
    KINDS,
    MEANS_HALVES,
    OWN_BEST,
    described,
)
from form_invariance.tables.columns import Schema, flag, integer, number, text

if TYPE_CHECKING:
    from form_invariance.experiment.readout import Readout

FORMAT_MEANS, TEMPLATE_MEANS, TASK_MEANS = "format", "template", "task"
"""The prompts over which the replacing means are taken: the format's, this operator's, or the task's."""
UNMODIFIED = "good"
"""The intervention in rows of the unmodified model, which have no neurons and no k."""
TEXT = "text"
"""The task of predicting the next token of plain text; its windows are numbered by b."""

_COLUMNS = {
    "format": text("format of the prompts"),
    "operator": text("operator whose neurons these are, or whose controls; of the unmodified model the task"),
    "task": text("operator whose eval prompts are answered, a task of specificity_tasks, or text (next token)"),
    "donor": text("transfer: the donor's format; else empty"),
    "intervention": text("keep_only, knockout, good (unmodified), bad (all at means), or a condition of transfer"),
    "positions": text("changed positions: all (but BOS) or last"),
    "means": text("means over prompts of the format, the template (one operator) or the task; else empty"),
    "neurons": text(
        f"{described(*KINDS)}, {BEST_IN}FORMAT (the operator's best k of every layer in this format), "
        f"{HALVES[0]}SET and {HALVES[1]}SET ({CIRCUIT} and "
        f"best, ranked anew by either half of the train prompts), {MEANS_HALVES[0]}SET and {MEANS_HALVES[1]}SET "
        f"(means over either half of their prompts), CONTROL{CONTROL_OF}{OWN_BEST} (controls of the best in the "
        "format of the prompts), not_shared (the donor's best outside the circuit), all_late, residual; none"
    ),
    "k": integer("circuit size: neurons per layer and format; 0 or -1 where there is none"),
    "seed": integer("draw of a control; else -1"),
    "index": integer("number of the prompt; of transfer among the pairs that receive"),
    "a": integer("first operand (or the smaller one); -1 of a table, text or a task with one operand"),
    "b": integer("second operand; the only operand; of a table or text the number of the row or window"),
}
_METRICS = {
    "correct": flag("the most probable token is the answer"),
    "probability": number("probability of the answer"),
    "normalized_logit": number("logit[answer] / largest logit"),
    "margin": number("logit[answer] - largest logit of another token"),
    "faithfulness": number("(circuit - bad) / (good - bad); NaN where the gap is nearly zero or not measured"),
    "donor_answer": number("1 where the output is that of the donor's own run, else 0; NaN without a donor"),
    "permuted_answer": number("share of other pairs' donors (the right answer excepted) with this output; or NaN"),
}
METRICS = tuple(_METRICS)


def by_prompt(name: str, *keys: str) -> Schema:
    """The schema of a table by prompt; `keys` are the table's keys in addition to the model."""
    columns = {column: meaning for column, meaning in (_COLUMNS | _METRICS).items() if column not in keys}
    return Schema(name, columns, ("model", *keys))


INTERVENTIONS_PROMPTS = by_prompt("interventions_prompts", "format", "operator")
DOSE_PROMPTS = by_prompt("dose_prompts", "format", "task")
SPECIFICITY_PROMPTS = by_prompt("specificity_prompts", "format")
TRANSFER_PAIRS = by_prompt("transfer_pairs", "operator")
MEASUREMENTS = {
    schema.name: schema for schema in (INTERVENTIONS_PROMPTS, DOSE_PROMPTS, SPECIFICITY_PROMPTS, TRANSFER_PAIRS)
}
"""The tables by prompt, by kind."""


def measurements(
    labels: pd.DataFrame, prompts: pd.DataFrame, values: Mapping[str, np.ndarray], **setting: str
) -> pd.DataFrame:
    """The rows of a table by prompt: one for each set of neurons and prompt.

    Args:
        labels: one row for each set.
        prompts: columns of P prompts.
        values: by metric, (sets, P); a metric that is missing here is NaN in the table.
        setting: further columns, each with one value.
    """
    table = labels.loc[labels.index.repeat(len(prompts))].reset_index(drop=True)
    of_prompts = {str(name): np.tile(column, len(labels)) for name, column in prompts.items()}
    table = table.assign(**of_prompts, **setting)
    return table.assign(**{name: np.ravel(values[name]) if name in values else np.nan for name in METRICS})


def readout_rows(readout: "Readout", labels: pd.DataFrame, prompts: pd.DataFrame, **setting: str) -> pd.DataFrame:
    """The rows of sets of neurons whose answers are read out, (sets, P); arguments as in `measurements`."""
    values = {**readout.metrics(), "correct": readout.correct.cpu().numpy()}
    return measurements(labels, prompts, values, **setting)
