"""What a label predicts: on which prompts its neurons matter."""

from form_invariance.tables.columns import Schema, integer, number, text

ALL = "all"
"""The value of `format` and `operator` in rows over all cells, and of `family` in rows over all families."""

METRICS = {
    "accuracy": "fraction of prompts whose most probable token is the answer",
    "probability": "mean probability of the answer",
    "normalized_logit": "mean of logit[answer] / largest logit",
}

FAMILY_KNOCKOUT = Schema(
    "family_knockout",
    {
        "format": text("format of the prompts; all in rows over all cells"),
        "operator": text("operator of the prompts; all in rows over all cells"),
        "k": integer("circuit size: neurons per layer and format"),
        "neurons": text("shared, matched_variance or matched_effect (the last two are not shared)"),
        "family": text("family of the labels; all: every label of a neuron"),
        "cells": integer("cells (format and operator) that have a value; 1 or 0 in a cell's own row"),
        "labelled": integer("neurons with a strict label of the family in this format; the sum over cells"),
        "prompts": integer("prompts on which neurons of both kinds can be ablated; the sum over cells"),
        "ablated": number("mean number of neurons ablated in such a prompt, the same for both kinds"),
        "metric": text("; ".join(f"{name} ({meaning})" for name, meaning in METRICS.items())),
        "matching": number("what is lost if neurons are ablated whose rule holds for the prompt"),
        "not_matching": number("what is lost if as many of the family in the same layers are, whose rules do not"),
        "difference": number("matching - not_matching, paired by prompt"),
        "low": number("2.5 % bootstrap percentile over prompts; over cells and prompts in rows over all cells"),
        "high": number("97.5 % bootstrap percentile"),
        "verdict": text("yes (the interval is above zero), no (below), undecided, or undefined"),
    },
)
