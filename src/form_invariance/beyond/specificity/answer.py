"""What the neurons do on other tasks: is copying spared?"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from form_invariance.experiment.answers import Answer, percent
from form_invariance.experiment.contrasts.cells import OWN
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.verdicts import decided
from form_invariance.experiment.other_tasks import FEWEST

INPUTS = {"contrasts": CONTRASTS}
CONTROL = "circuit_minus_control"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """What the circuit's knockout costs on every task, own problems first."""
    contrasts, label = tables["contrasts"], QUESTIONS["computed"].label
    rows = decided(contrasts, k)
    rows = rows[rows["question"] == "computed"].set_index("metric")
    size = int(rows["at_k"].iloc[0])
    tasks = overall(contrasts[(contrasts["contrast"] == CONTROL) & (contrasts["k"] == size)])
    shown = tasks.drop(columns=["k", "intervention", "contrast", "metric"])
    row, margin = (rows[rows.index == metric].iloc[0] for metric in ("probability", "margin"))
    if not row["cells"]:
        measured = shown.loc[shown["task"] == OWN, "cells"].sum()
        why = f"no task that copies has {FEWEST} right answers" if measured else "no neuron is shared"
        return [Answer(label, f"Undefined at k = {size}: {why}.", shown, ("tasks",) if measured else ())]
    sentence = (
        f"Knocked out, the shared neurons (k = {size}) cost the operator's own answers {row['second']:z.3f} more "
        f"probability than a control does, and answers that copy a number of the prompt "
        f"{row['second'] - row['first']:z.3f}: {_spared(row)}. Of the margin over the next answer, "
        f"{_spared(margin)}."
    )
    return [Answer(label, sentence, shown, ("tasks",))]


def _spared(row: pd.Series) -> str:
    """The share of the own loss that copying is spared."""
    if np.isnan(row["ratio"]):
        return "there is no share, because the interval of the former is not above zero"
    low, high = (percent(row[name]) for name in ("ratio_low", "ratio_high"))
    return f"copying is spared {percent(row['ratio'])} of the loss (95 % interval {low} to {high})"
