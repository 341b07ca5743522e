"""The verdicts on one model."""

from form_invariance.experiment.contrasts.questions import NOTHING_OWN, QUESTIONS, SERVES
from form_invariance.tables.columns import Schema, integer, number, text

VERDICTS = Schema(
    "verdicts",
    {
        "question": text("; ".join(f"{name}: {question.compared}" for name, question in QUESTIONS.items())),
        "metric": text(
            "; ".join(
                f"{name}: {', '.join(f'{metric} ({part.contrast})' for metric, part in question.parts.items())}"
                for name, question in QUESTIONS.items()
            )
        ),
        "operator": text("operator; all = over all operators"),
        "k": integer("circuit size: neurons per layer and format"),
        "at_k": integer("size at which the question is decided: k, or one of best_k or specificity_k"),
        "cells": integer("operators, cells or directions that have a value"),
        "prompts": integer("prompts or pairs that have both values, over the cells; 0 for the question same"),
        "value": number("metric of the shared neurons, mean over cells"),
        "control": text("what it is compared with"),
        "control_value": number("metric of the control; 0 without a control"),
        "difference": number(f"value - control_value (exchange, computed: value / control_value - {SERVES})"),
        "low": number("lower 95 % limit: bootstrap over the prompts of each cell; the cells are fixed"),
        "high": number("upper 95 % limit"),
        "limit_error": number("Monte Carlo standard error of the limits, the larger of the two"),
        "verdict": text(
            "yes (interval above zero by two limit errors), no (below; of same also if the upper limit of the "
            f"invariance is below {NOTHING_OWN}), undecided, undefined; mixed (yes and no for some operators)"
        ),
        "note": text("why nothing is claimed, whatever the interval; else empty"),
    },
    ("model",),
)
