"""Are the shared neurons sufficient, and are they necessary, more than the strongest control?"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from form_invariance.experiment.answers import Answer
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.verdicts import in_words
from form_invariance.experiment.neuron_sets import CIRCUIT
from form_invariance.stages.interventions.table import INTERVENTIONS, of_intervention
from form_invariance.tables.columns import ALL

INPUTS = {"contrasts": CONTRASTS, "interventions": INTERVENTIONS}

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
"""By intervention: the opening of its answer, before the metrics, and the question about the strongest control."""


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Every intervention by all metrics, compared with the strongest control."""
    table = tables["contrasts"]
    rows = in_words(table[(table["k"] == k) & (table["contrast"] == "circuit_minus_control_everywhere")])
    done = tables["interventions"]
    circuits = of_intervention(done[(done["k"] == k) & (done["neurons"] == CIRCUIT)], "knockout")
    sizes = circuits.set_index(["format", "operator"])["n_neurons"]
    names = rows[["format", "operator"]].itertuples(index=False, name=None)
    cells = [tuple(slice(None) if name == ALL else name for name in cell) for cell in names]
    rows = rows.assign(n_neurons=[int(sizes.loc[cell].sum()) for cell in cells])
    questions = {"sufficient": "keep_only", "necessary": "knockout"}
    return [_answer(rows[rows["intervention"] == name], k, name, question) for question, name in questions.items()]


def _answer(rows: pd.DataFrame, k: int, intervention: str, question_name: str) -> Answer:
    """The answer to a question from the rows of its intervention and of one k."""
    question = QUESTIONS[question_name].label
    opening, compared = _WORDS[intervention]
    overall_rows = overall(rows)
    cells = rows[rows["format"] != ALL].drop_duplicates(["format", "operator"])
    count, empty = len(cells), int((cells["n_neurons"] == 0).sum())
    shown = rows[list(_SHOWN)].rename(columns=_SHOWN)
    if empty == count:
        sentence = f"No neuron is shared in any of the {count} cells, so this is undefined."
        return Answer(question, sentence, shown)
    decided = overall_rows[overall_rows["metric"] == PRIMARY].iloc[0]
    metrics = ", ".join(_metric(row) for row in overall_rows.to_dict("records"))
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
