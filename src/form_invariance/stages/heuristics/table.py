"""Heuristics of the shared neurons."""

import pandas as pd

from form_invariance.tables.columns import CELL, NEURON, Schema, flag, number, text

LABELLED_NEURONS = Schema(
    "labelled_neurons",
    {
        "neurons": text("shared, matched_variance, matched_effect, random_direction or smooth_noise (numbered)"),
        **NEURON,
    },
    ("model", "operator"),
)
HEURISTICS = Schema(
    "heuristics",
    {
        "mode": text("reference (the published scores) or strict (its faults corrected)"),
        "neurons": text("shared, or what they are compared with (docs/stages.md)"),
        "activations": text("observed, or shuffled over the pairs (what the value vector alone gives)"),
        **NEURON,
        "heuristic": text("name of the heuristic"),
        "family": text("family of the heuristic"),
        "score": number("share of the neuron's top pairs that the heuristic holds for"),
        "base_rate": number("share of all pairs that the heuristic holds for"),
        "lift": number("score / base_rate"),
        "p_value": number("strict: share of equally smooth random maps with at least this evidence; else NaN"),
        "label": flag("the neuron carries this heuristic"),
    },
    CELL,
)


def strict_labels(heuristics: pd.DataFrame) -> pd.DataFrame:
    """The rows of a heuristics table that are strict labels from observed activations."""
    mode, activations = heuristics["mode"], heuristics["activations"]
    return heuristics[(mode == "strict") & (activations == "observed") & heuristics["label"]]


def ordered(neurons: pd.DataFrame) -> pd.DataFrame:
    """Labelled neurons in the order of their maps."""
    return neurons.sort_values(["neurons", "layer", "neuron"], ignore_index=True)
