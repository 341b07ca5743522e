"""Transfer of activations between formats."""

import pandas as pd

from form_invariance.experiment.neuron_sets import CONTROLS, HALVES, described
from form_invariance.tables.columns import Schema, flag, integer, number, text

DIRECTION = ("donor", "target")
TRANSFER = Schema(
    "transfer",
    {
        "k": integer("circuit size: neurons per layer and format; -1 for all_late and residual"),
        "condition": text(
            "matched (same problem), mismatched (another pair), same_answer (another problem, equal answer), "
            "same_format (another pair, target's own format), no_donor (the circuit at its mean over the target's "
            "prompts); with the same problem as matched: other neurons, as "
            f"many per layer ({described(*CONTROLS)}, in the target's format; "
            "not_shared: the donor's best outside the circuit), all_late (every late neuron), residual (residual "
            "stream before the first late layer); harm_matched, harm_random, interchange (pairs right in both "
            "formats; interchange: another pair's donor); reverse (pairs right in the target alone); with donors "
            "of a copying task: copied_answer (the right answer), copied_other (pairs right in both formats; the "
            f"answer of interchange's donor); {HALVES[0]}CONDITION and {HALVES[1]}CONDITION: with the circuit "
            "that is ranked anew by either half of the train prompts"
        ),
        "seed": integer("draw of a random control; -1 for the other conditions"),
        "pairs": integer("pairs, the denominator of every rate of the row"),
        "n_neurons": integer("neurons transferred, over all late layers; rates of none are NaN (but residual)"),
        "recovered": number("share whose output is the right answer (pairs right in the target: a wrong one)"),
        "low": number("Wilson 95 % lower limit of it"),
        "high": number("Wilson 95 % upper limit of it"),
        "donor_answer": number("fraction whose output is that of the donor's own run"),
        "centered": flag("logits centred over the vocabulary"),
    },
    ("model", "operator", *DIRECTION),
)


def with_direction(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column direction, DONOR_to_TARGET."""
    return table.assign(direction=table["donor"] + "_to_" + table["target"])
