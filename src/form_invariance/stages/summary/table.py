"""The verdicts on one model."""

from form_invariance.stages.questions import NOTHING_OWN, QUESTIONS, SERVES
from form_invariance.tables.columns import Column, Schema, flag, integer, number, text

BEYOND_OPERATOR = "jaccard beyond operator"
"""The metric by which formats of one operator are compared with formats of two operators."""

FEWEST_PAIRS = 10
"""Of transfer: with fewer in all cells together a verdict is undefined."""

VERDICTS = Schema(
    "verdicts",
    {
        "question": text("; ".join(f"{name}: {question.compared}" for name, question in QUESTIONS.items())),
        "metric": text(
            "jaccard, jaccard beyond operator (two formats of one operator, minus two formats of two operators), "
            "accuracy, probability, faithfulness, rate (of pairs); accuracy and probability beyond control (of "
            "one circuit in its own operator and in others, beyond what the strongest control does), probability "
            "kept (of neurons kept alone, beyond the strongest control)"
        ),
        "operator": text("operator; all = over all operators"),
        "k": integer("circuit size: neurons per layer and format"),
        "cells": integer("cells that have a value: operators, with formats, or with directions"),
        "value": number("of the shared neurons, mean over cells"),
        "control": text("what it is compared with"),
        "control_value": number("the same of the control; 0 where there is none"),
        "difference": number(
            f"value - control_value, mean over cells (exchange: value / control_value - {SERVES}); NaN where no "
            "neuron is shared or too few pairs can be tried"
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
)

COMPARED = Schema(
    "compared",
    {
        "model": text("model; of two runs with one model each: both"),
        **{name: VERDICTS.columns[name] for name in ("question", "metric", "operator", "k")},
        **{
            f"{name}_{side}": Column(column.type, f"of the {side} run: {column.meaning}")
            for side in ("first", "second")
            for name, column in VERDICTS.columns.items()
            if name in ("difference", "low", "high", "verdict")
        },
        "differs": flag("the two runs' verdicts differ"),
    },
)

NULLS = Schema(
    "nulls",
    {
        "question": text("as in the verdicts"),
        "metric": text("as in the verdicts"),
        "null": text(
            "a control is the circuit (a draw, compared with the other draws of its kind), permuted donors, "
            "donors change places (matched and same answer, by chance in each pair), three different operators "
            "(each format has another one under the same name), operators relabelled (the circuits change places "
            "on every problem by chance), a fifth of the losses is missing, a fifth of the gains is missing "
            f"(the other formats' best neurons do {SERVES} of what the own best do beyond the strongest control, "
            "knocked out or kept alone), controls are the best (draws of a control are every format's best "
            "neurons; kept: kept alone)"
        ),
        "k": integer("circuit size: neurons per layer and format"),
        "trials": integer("tables in which the null is true"),
        "yes": number("share of the trials whose verdict over all operators is yes"),
        "no": number("share whose verdict is no"),
        "undecided": number("share whose verdict is undecided"),
        "undefined": number("share whose verdict is undefined"),
    },
)
