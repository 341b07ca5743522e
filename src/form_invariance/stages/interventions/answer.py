"""Are the shared neurons sufficient, and are they necessary, more than the strongest control?"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.stages.answers import Answer
from form_invariance.stages.contrasts import ALL, overall
from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS
from form_invariance.stages.verdicts import deciding
from form_invariance.tables.inputs import Input

INPUTS = {"intervention_contrasts": Input(INTERVENTION_CONTRASTS)}

_SHOWN = {
    **{"format": "format", "operator": "operator", "metric": "metric", "n_neurons": "neurons"},
    **{"prompts": "prompts", "first": "circuit", "control": "strongest control", "second": "control"},
    **{"difference": "difference", "low": "low", "high": "high", "verdict": "verdict"},
}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Keep-only and knockout by all metrics, compared with the strongest control."""
    table = tables["intervention_contrasts"]
    rows = table[table["k"] == k]
    return [
        _answer(
            rows[rows["intervention"] == "keep_only"],
            "Do the shared neurons suffice?",
            f"With every other late neuron at its mean, the shared neurons (k = {k}) keep",
            "Do they keep more than the strongest control?",
            "keep_only",
        ),
        _answer(
            rows[rows["intervention"] == "knockout"],
            "Are the shared neurons needed?",
            f"With the shared neurons (k = {k}) at their means, the model loses",
            "Does it lose more than with the strongest control?",
            "knockout",
        ),
    ]


def _answer(rows: pd.DataFrame, question: str, opening: str, compared: str, figure: str) -> Answer:
    """One answer from the rows of one k and intervention."""
    every = overall(rows)
    cells = rows[rows["format"] != ALL].drop_duplicates(["format", "operator"])
    count, empty = len(cells), int((cells["n_neurons"] == 0).sum())
    shown = rows[list(_SHOWN)].rename(columns=_SHOWN)
    if empty == count:
        sentence = f"No neuron is shared in any of the {count} cells, so this is undefined."
        return Answer(question, sentence, shown, (figure,))
    decided = deciding(every)
    metrics = ", ".join(_metric(row) for row in every.to_dict("records"))
    sentence = (
        f"{opening} {metrics}; means over {count - empty} cells. {compared} By {decided['metric']}, the primary "
        f"metric: {decided['verdict']}."
    )
    if empty:
        sentence += f" In {empty} of {count} cells no neuron is shared; they are left out."
    return Answer(question, sentence, shown, (figure,))


def _metric(row: Mapping[Any, Any]) -> str:
    """One metric with its control, difference and interval, in words."""
    if math.isnan(row["difference"]):
        return f"{row['metric']} undefined"
    value, control, difference, low, high = (
        f"{round(row[name], 3) + 0.0:.3f}" for name in ("first", "second", "difference", "low", "high")
    )
    return (
        f"{row['metric']} {value} (strongest control {control}; difference {difference}, "
        f"95% interval {low} to {high})"
    )
