"""Does one format's circuit serve another, and is it a circuit of this operator?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.damages import KEEP_ONLY, KNOCKOUT
from form_invariance.beyond.specificity.table import (
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
    SPECIFICITY,
    SPECIFICITY_CONTRASTS,
    TEXT,
)
from form_invariance.experiment.answers import Answer, percent
from form_invariance.experiment.contrasts import overall
from form_invariance.experiment.questions import QUESTIONS
from form_invariance.experiment.verdicts import PRIMARY

INPUTS = {"specificity": SPECIFICITY, "specificity_contrasts": SPECIFICITY_CONTRASTS}

_Rows = Mapping[tuple[str, str, str], Any]
"""The contrasts over all cells at one k, of the knockout, by metric, contrast and task."""


def _points(row: Mapping[str, Any]) -> str:
    """A difference of shares with its interval, in percentage points."""
    points = f"{round(100 * row['difference']):+d} points"
    if np.isnan(row["low"]):  # a single draw of a control gives none
        return f"{points} (no interval): {row['verdict']}"
    return (
        f"{points} (95 % interval {round(100 * row['low']):+d} to {round(100 * row['high']):+d}): {row['verdict']}"
    )


def _ratio(row: Mapping[Any, Any], names: str = "own / other") -> str:
    if np.isnan(row["ratio"]):
        return "no ratio, because the interval of the latter is not above zero"
    return f"{names} {row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})"


def _other_task(task: str, rows: pd.DataFrame, over: _Rows) -> str:
    """What the knockout does to a task that is no operator, or why that is undefined."""
    name = "Plain text" if task == TEXT else task.capitalize()
    if not (rows["undefined"] == "").any():
        reason = rows.loc[rows["n_neurons"] > 0, "undefined"].iloc[0]
        least, most = rows["prompts"].min(), rows["prompts"].max()
        return f"{name}: undefined, n = {least if least == most else f'{least} to {most}'} ({reason})."
    if task == TEXT:
        row = over["loss", "own_minus_other", task]
        limits = f"{row['difference']:.2f} (95 % interval {row['low']:.2f} to {row['high']:.2f})"
        return (
            f"{name}: its loss rises by {row['second']:.2f} nats per token, that of the own answers by "
            f"{row['first']:.2f}; own minus text {limits}: {row['verdict']}."
        )
    row = over["accuracy", "own_minus_other", task]
    return f"{name}: {percent(row['second'])} are lost; own minus {task} {_points(row)}."


_EXCHANGE = {
    KNOCKOUT: "As many neurons that are the best in another format cost",
    KEEP_ONLY: "Kept alone, neurons that are the best in another format leave",
}
"""How the sentence on exchanged neurons begins, by intervention."""


def _exchanged(contrasts: pd.DataFrame, k: int) -> Answer:
    """What other formats' best neurons do, and the own best; a sentence for each intervention that is defined.

    Args:
        contrasts: of one k.
    """
    table = contrasts[(contrasts["contrast"] == EXCHANGED) & (contrasts["metric"] == PRIMARY)]
    rows = overall(table)
    rows = rows[rows["cells"] > 0]
    sentences = [
        f"{opening} the right answer {row['first']:.3f} more probability than the strongest matched control does, "
        f"the own best {row['second']:.3f}; {_ratio(row, 'other / own')}."
        for intervention, opening in _EXCHANGE.items()
        for row in rows[rows["intervention"] == intervention].to_dict("records")
    ]
    shown = table.drop(columns=["k", "contrast", "metric", "task"])
    opening = f"With as many of the best neurons as are shared at k = {k}:"
    if not sentences:
        why = f"Undefined at k = {k}: no neuron is shared, or the model cannot do the problems."
        return Answer(QUESTIONS["exchange"].label, why, shown)
    return Answer(QUESTIONS["exchange"].label, " ".join([opening, *sentences]), shown, ("exchange",))


def _sentences(knockout: pd.DataFrame, over: _Rows, k: int) -> list[str]:
    """Own against the other operators, and circuit against control, by accuracy.

    Args:
        knockout: the circuits' rows of the specificity table, of the knockout.
    """
    control = over["accuracy", "circuit_minus_control", OWN]
    other = over["accuracy", "own_minus_other", OTHER_OPERATORS]
    beyond = over["accuracy", "own_minus_other_beyond_control", OTHER_OPERATORS]
    lost = percent(knockout.loc[knockout["task"] == knockout["operator"], "accuracy_damage"].mean())
    parts = [
        f"If an operator's shared neurons (k = {k}) are knocked out at the last token, {lost} of its own answers"
    ]
    if other["cells"]:
        parts[0] += f" and {percent(other['second'])} of the other operators' answers are lost; {_ratio(other)}."
        parts.append(f"Own minus other {_points(other)}.")
    else:
        parts[0] += " are lost. There is no other operator."
    if control["cells"]:
        parts.append(
            f"The strongest matched control loses {percent(control['second'])} of the own answers; circuit minus "
            f"control {_points(control)}."
        )
    others = over.get(("accuracy", OTHER_CIRCUITS, OWN))
    if others is not None and others["cells"]:
        parts.append(
            f"The other operators' shared neurons lose {percent(others['second'])} of the own answers; own minus "
            f"theirs {_points(others)}."
        )
    if beyond["cells"]:
        parts.append(f"Own minus other, of what the circuit does beyond its control: {_points(beyond)}.")
    return parts


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The damage of a knockout to the own operator, to other tasks, and by matched controls."""
    contrasts, table = tables["specificity_contrasts"], tables["specificity"]
    contrasts = contrasts[contrasts["k"] == k]
    exchanged = _exchanged(contrasts, k)
    chosen = contrasts[contrasts["intervention"] == KNOCKOUT]
    named = chosen["task"].isin([OWN, OTHER_OPERATORS]) & (chosen["metric"] == "accuracy")
    shown = chosen[named].drop(columns=["k", "intervention", "metric"]).reset_index(drop=True)
    label = QUESTIONS["specific"].label
    knockout = table[(table["k"] == k) & (table["neurons"] == "circuit") & (table["intervention"] == KNOCKOUT)]
    if not knockout["n_neurons"].any():
        return [exchanged, Answer(label, f"Undefined: no neuron is shared at k = {k}.", shown)]
    rows = overall(chosen).to_dict("records")
    over = {(row["metric"], row["contrast"], row["task"]): row for row in rows}
    others = knockout[~knockout["task"].isin(knockout["operator"])].groupby("task", sort=False)
    sentences = _sentences(knockout, over, k)
    sentences += [_other_task(str(task), part, over) for task, part in others]
    return [exchanged, Answer(label, " ".join(sentences), shown, ("specificity",))]
