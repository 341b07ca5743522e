"""Keep-only and knockout."""

import pandas as pd

from form_invariance.experiment.measurements import FORMAT_MEANS
from form_invariance.experiment.neuron_sets import CIRCUIT, HALVES, KINDS, MEANS_HALVES, described
from form_invariance.tables.columns import CELL, Schema, flag, integer, number, text

_SETTING = {
    "intervention": text("keep_only or knockout"),
    "means": text("put in: format = over all operators' prompts, template = over this operator's alone"),
    "positions": text("ablated positions: all (but BOS) or last"),
    "neurons": text(
        f"{described(*KINDS)}, {HALVES[0]}{CIRCUIT} and {HALVES[1]}{CIRCUIT} (ranked anew by either half of the "
        f"train prompts), {MEANS_HALVES[0]}{CIRCUIT} and {MEANS_HALVES[1]}{CIRCUIT} (means over either half of "
        "their prompts)"
    ),
    "k": integer("circuit size: neurons per layer and format"),
    "seed": integer("draw of the random control; -1 for the circuit"),
}
INTERVENTIONS = Schema(
    "interventions",
    {
        **_SETTING,
        "n_neurons": integer("neurons kept or knocked out, over all late layers; if 0, all measurements are NaN"),
        "prompts": integer("eval prompts"),
        "undefined": integer("prompts whose good - bad gap is nearly zero, left out of the mean of ratios"),
        "faithfulness_mean": number("mean over prompts of (circuit - bad) / (good - bad)"),
        "mean_low": number("2.5 % bootstrap percentile over prompts"),
        "mean_high": number("97.5 % bootstrap percentile over prompts"),
        "normalized_logit": number("mean normalised logit under the intervention"),
        "good": number("mean normalised logit of the unmodified model"),
        "bad": number("mean normalised logit with all heads and neurons at their means"),
        "accuracy": number("fraction of prompts whose most probable token is the answer"),
        "accuracy_low": number("2.5 % bootstrap percentile over prompts"),
        "accuracy_high": number("97.5 % bootstrap percentile over prompts"),
        "probability": number("mean probability of the answer"),
        "probability_low": number("2.5 % bootstrap percentile over prompts"),
        "probability_high": number("97.5 % bootstrap percentile over prompts"),
        "centered": flag("logits centred over the vocabulary"),
    },
    CELL,
)


def of_intervention(
    table: pd.DataFrame, intervention: str, positions: str = "all", means: str = FORMAT_MEANS
) -> pd.DataFrame:
    """The rows of an interventions table with this intervention, these positions and these means."""
    done = (table["intervention"] == intervention) & (table["positions"] == positions)
    return table[done & (table["means"] == means)]
