"""Are the shared neurons sufficient, and are they necessary, more than the strongest control?"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.experiment.answers import Answer
from form_invariance.experiment.contrasts import ALL, overall
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.questions import QUESTIONS
from form_invariance.experiment.verdicts import deciding, in_words
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS

INPUTS = {"intervention_contrasts": INTERVENTION_CONTRASTS}

_SHOWN = {
    **{"format": "format", "operator": "operator", "metric": "metric", "n_neurons": "neurons"},
    **{"prompts": "prompts", "first": "circuit", "control": "strongest control", "second": "control"},
    **{"difference": "difference", "low": "low", "high": "high", "verdict": "verdict"},
}


_WORDS = {
    "keep_only": (
        "With every other late neuron at its mean, the shared neurons (k = {k}) keep",
        "Do they keep more than the strongest control?",
    ),
    "knockout": (
        "With the shared neurons (k = {k}) at their means, the model loses",
        "Does it lose more than with the strongest control?",
    ),
}
"""The opening of an answer, which the metrics follow, and the question to the strongest control."""


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Every intervention by all metrics, compared with the strongest control."""
    table = tables["intervention_contrasts"]
    rows = in_words(table[table["k"] == k])
    return [_answer(rows[rows["intervention"] == name], k, name) for name in INTERVENED]


def _answer(rows: pd.DataFrame, k: int, intervention: str) -> Answer:
    """The answer of one intervention from its rows of one k."""
    question = QUESTIONS[INTERVENED[intervention].question].label
    opening, compared = _WORDS[intervention]
    every = overall(rows)
    cells = rows[rows["format"] != ALL].drop_duplicates(["format", "operator"])
    count, empty = len(cells), int((cells["n_neurons"] == 0).sum())
    shown = rows[list(_SHOWN)].rename(columns=_SHOWN)
    if empty == count:
        sentence = f"No neuron is shared in any of the {count} cells, so this is undefined."
        return Answer(question, sentence, shown)
    decided = deciding(every)
    metrics = ", ".join(_metric(row) for row in every.to_dict("records"))
    sentence = (
        f"{opening.format(k=k)} {metrics}; means over {count - empty} cells. {compared} By "
        f"{decided['metric']}, the primary metric: {decided['verdict']}."
    )
    if empty:
        sentence += f" In {empty} of {count} cells no neuron is shared; they are left out."
    return Answer(question, sentence, shown, (intervention,))


def _metric(row: Mapping[Any, Any]) -> str:
    """One metric with its control, difference and interval, in words."""
    if math.isnan(row["difference"]):
        return f"{row['metric']} undefined"
    value, control, difference, low, high = (
        f"{row[name]:z.3f}" for name in ("first", "second", "difference", "low", "high")
    )
    return (
        f"{row['metric']} {value} (strongest control {control}; difference {difference}, "
        f"95% interval {low} to {high})"
    )
