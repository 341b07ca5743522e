"""The verdicts on one model."""

from form_invariance.tables.columns import Schema, integer, number, text

QUESTIONS = {
    "same": "Same neurons?",
    "sufficient": "Sufficient?",
    "necessary": "Necessary?",
    "beyond_the_answer": "More than the answer?",
    "imposed": "Does a donor impose its answer?",
    "specific": "Of this operator?",
}
"""By name, in the order of the report."""

COMPARED = {
    "same": "Jaccard of all formats minus chance",
    "sufficient": "keep-only: circuit minus strongest control",
    "necessary": "knockout: loss by circuit minus by strongest control",
    "beyond_the_answer": "transfer: matched donor minus donor with the same answer",
    "imposed": "transfer: the answer of a donor with another answer comes out",
    "specific": "knockout: loss of the own operator minus that of the other operators",
}
"""What the difference of each question is."""

FEWEST_PAIRS = 10
"""Of transfer: with fewer in all cells together a verdict is undefined."""

VERDICTS = Schema(
    "verdicts",
    {
        "question": text("; ".join(f"{name}: {compared}" for name, compared in COMPARED.items())),
        "metric": text(
            "jaccard, accuracy, accuracy beyond control (beyond what the strongest control does), faithfulness, "
            "probability or rate (of pairs)"
        ),
        "k": integer("circuit size: neurons per layer and format"),
        "cells": integer("cells that have a value: operators, with formats, or with directions"),
        "value": number("of the shared neurons, mean over cells"),
        "control": text("what it is compared with"),
        "control_value": number("the same of the control; 0 where there is none"),
        "difference": number(
            "value - control_value, mean over cells; NaN where no neuron is shared or too few pairs can be tried"
        ),
        "low": number("lower 95 % limit, bootstrap of two stages: over cells, and over prompts within them"),
        "high": number("upper 95 % limit"),
        "verdict": text("yes (the interval is above zero), no (below), undecided, or undefined"),
    },
)
