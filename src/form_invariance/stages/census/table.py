"""Census."""

from form_invariance.tables.columns import CELL, PROBLEM, WHOLE_CORRECT, Schema, flag, integer, number, text

CENSUS = Schema(
    "census",
    {
        **PROBLEM,
        "uniform": flag("part of the uniform sample of the pool; rates use these rows alone"),
        "predicted_token": integer("the most probable next token's id"),
        "predicted": text("the most probable next token's text"),
        "correct": flag("the most probable next token is the target"),
        "whole_correct": WHOLE_CORRECT,
        "probability": number("probability of the answer"),
        "logit": number("logit of the answer, centred over the vocabulary"),
        "rank": integer("rank of the answer among all tokens, 1 = most probable"),
    },
    CELL,
)
