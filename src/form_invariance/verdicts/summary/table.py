"""The verdicts on one model."""

from form_invariance.experiment.questions import NOTHING_OWN, QUESTIONS, SERVES
from form_invariance.tables.columns import Schema, integer, number, text

BEYOND_OPERATOR = "jaccard beyond operator"
"""The metric by which formats of one operator are compared with formats of two operators."""

COPIED = "copied answer"
"""The control of transfer whose donor has copied its answer, not computed it."""

VERDICTS = Schema(
    "verdicts",
    {
        "question": text("; ".join(f"{name}: {question.compared}" for name, question in QUESTIONS.items())),
        "metric": text(
            "jaccard, jaccard beyond operator (two formats of one operator, minus two formats of two operators), "
            "accuracy, probability, faithfulness, rate (of pairs), rate beyond copied, beyond copied (donors that "
            "compute against donors that copy); accuracy and probability beyond control (of "
            "one circuit in its own operator and in others, beyond what the strongest control does), probability "
            "kept (of neurons kept alone, beyond the strongest control), layers"
        ),
        "operator": text("operator; all = over all operators"),
        "k": integer("circuit size: neurons per layer and format"),
        "cells": integer("cells that have a value: operators, with formats, or with directions"),
        "prompts": integer("prompts or pairs that have both values, over the cells; 0 of same"),
        "value": number("of the shared neurons, mean over cells"),
        "control": text("what it is compared with"),
        "control_value": number("the same of the control; 0 where there is none"),
        "difference": number(
            "value - control_value, mean over cells (ratios of exchange and computed: value / control_value - "
            f"{SERVES}); NaN where no neuron is shared or too few pairs can be tried"
        ),
        "low": number("lower 95 % limit: bootstrap over the prompts of each cell; the cells are fixed"),
        "high": number("upper 95 % limit"),
        "limit_error": number("Monte Carlo standard error of the limits, the larger of the two"),
        "verdict": text(
            "yes (the interval is above zero by two limit errors), no (below; of same also if the upper limit of "
            f"the invariance is below {NOTHING_OWN}), undecided, or undefined; over all "
            "operators mixed, where it is yes for some and no for others"
        ),
    },
    ("model",),
)
