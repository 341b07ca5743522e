"""The verdicts on one model."""

from form_invariance.stages.questions import QUESTIONS
from form_invariance.tables.columns import Schema, integer, number, text

BEYOND_OPERATOR = "jaccard beyond operator"
"""The metric by which formats of one operator are compared with formats of two operators."""

SERVES = 0.8
"""Other formats' neurons serve a format if they do this share of the damage that its own do."""

FEWEST_PAIRS = 10
"""Of transfer: with fewer in all cells together a verdict is undefined."""

VERDICTS = Schema(
    "verdicts",
    {
        "question": text("; ".join(f"{name}: {question.compared}" for name, question in QUESTIONS.items())),
        "metric": text(
            "jaccard, jaccard beyond operator (two formats of one operator, minus two formats of two operators), "
            "accuracy, accuracy beyond control (of one circuit in its own operator and in others, beyond what the "
            "strongest control does), faithfulness, "
            "probability or rate (of pairs)"
        ),
        "operator": text("operator; all = over all operators"),
        "k": integer("circuit size: neurons per layer and format"),
        "cells": integer("cells that have a value: operators, with formats, or with directions"),
        "value": number("of the shared neurons, mean over cells"),
        "control": text("what it is compared with"),
        "control_value": number("the same of the control; 0 where there is none"),
        "difference": number(
            "value - control_value, mean over cells (exchange: value / control_value - 0.8); NaN where no neuron "
            "is shared or too few pairs can be tried"
        ),
        "low": number(
            "lower 95 % limit, bootstrap of two stages: over cells, and over prompts within them; of one "
            "operator, normal with the standard errors of its cells"
        ),
        "high": number("upper 95 % limit"),
        "verdict": text(
            "yes (the interval is above zero), no (below), undecided, or undefined; over all operators mixed, "
            "where it is yes for some and no for others"
        ),
    },
)
