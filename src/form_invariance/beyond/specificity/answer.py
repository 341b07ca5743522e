"""Does one format's circuit serve another, is it only for what is computed, is it of this operator?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.damages import KEEP_ONLY, KNOCKOUT
from form_invariance.beyond.specificity.table import (
    ANY_OPERATOR,
    BEYOND,
    COMMON,
    EXCHANGED,
    FEWEST,
    HALF,
    LOSS,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
    PARTS,
    SPARED,
    SPECIFICITY,
    SPECIFICITY_CONTRASTS,
)
from form_invariance.experiment.answers import Answer, percent
from form_invariance.experiment.contrasts import ALL, overall
from form_invariance.experiment.neuron_sets import BEST_IN
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
    return f"{names} {row['ratio']:z.2f} ({row['ratio_low']:z.2f} to {row['ratio_high']:z.2f})"


_OF_BEST = (EXCHANGED, HALF, ANY_OPERATOR, *PARTS.values())
"""The contrasts of the formats' best neurons."""
_EXCHANGE = {
    KNOCKOUT: "Knocked out, other formats' best cost",
    KEEP_ONLY: "Kept alone, other formats' best leave",
}
"""How the sentence on exchanged neurons begins, by intervention."""


def _exchanged(table: pd.DataFrame, contrasts: pd.DataFrame, k: int) -> Answer:
    """What other formats' best neurons do, and the own best; a sentence for each intervention that is defined.

    Args:
        table: specificity rows of one k.
        contrasts: of one k, by the primary metric.
    """
    rows = overall(contrasts)
    by = {(row["intervention"], row["contrast"]): row for row in rows[rows["cells"] > 0].to_dict("records")}
    sentences = []
    for intervention, opening in _EXCHANGE.items():
        if (row := by.get((intervention, EXCHANGED))) is not None:
            half = by.get((intervention, HALF))
            noise = ""
            if half and not np.isnan(half["ratio"]):
                noise = f"; by half of the train prompts the own best reach {half['ratio']:z.2f}"
            sentences.append(
                f"{opening} the right answer {row['first']:z.3f} more probability than a control does, the own "
                f"best {row['second']:z.3f}; {_ratio(row, 'other / own')}{noise}."
            )
    label, shown = QUESTIONS["exchange"].label, contrasts[contrasts["task"] == OWN]
    shown = shown[shown["contrast"].isin(_OF_BEST)].drop(columns=["k", "task", "metric"])
    if not sentences:
        return Answer(
            label, f"Undefined at k = {k}: no control could be drawn, or a cell has too few prompts.", shown
        )
    if (row := by.get((KNOCKOUT, ANY_OPERATOR))) is not None:
        sentences.append(
            f"Knocked out, other operators' best in these formats cost {row['second']:z.3f}; the operator's own "
            f"minus theirs: {row['difference']:z.3f} [{row['low']:z.3f}, {row['high']:z.3f}]."
        )
    opening = f"The best {k} of every late layer in two formats have {_in_common(table)} in common."
    return Answer(label, " ".join([opening, *sentences]), shown, ("losses", "exchange"))


def _in_common(table: pd.DataFrame) -> str:
    """The share of a format's best neurons that are among another format's, as a mean over pairs of formats."""
    own = table[(table["task"] == table["operator"]) & (table["intervention"] == KNOCKOUT)]
    cell = ["format", "operator"]
    best = own[own["neurons"] == BEST_IN + own["format"]].set_index(cell)["n_neurons"]
    common = own[own["neurons"].str.startswith(COMMON)].groupby(cell)["n_neurons"].sum()
    pairs = best * (table["format"].nunique() - 1)
    return percent(float((common.reindex(best.index, fill_value=0) / pairs).mean()))


def _computed(contrasts: pd.DataFrame, k: int) -> Answer:
    """What the circuit's knockout costs on every task, own arithmetic first.

    Args:
        contrasts: of one k, of the knockout, by the primary metric.
    """
    label = QUESTIONS["computed"].label
    tasks = contrasts[(contrasts["contrast"] == "circuit_minus_control") & (contrasts["operator"] == ALL)]
    shown = tasks[tasks["format"] == ALL].drop(columns=["k", "intervention", "contrast", "metric"])
    rows = overall(contrasts)
    (row,) = rows[rows["contrast"] == SPARED].to_dict("records")
    if not row["cells"]:
        measured = shown.loc[shown["task"] == OWN, "cells"].sum()
        why = f"no task that copies has {FEWEST} right answers" if measured else "no neuron is shared"
        return Answer(label, f"Undefined at k = {k}: {why}.", shown, ("tasks",) if measured else ())
    own, copied = row["second"], row["second"] - row["first"]
    spared = "there is no share, because the interval of the former is not above zero"
    if not np.isnan(row["ratio"]):
        low, high = (percent(row[name]) for name in ("ratio_low", "ratio_high"))
        spared = f"copying is spared {percent(row['ratio'])} of the loss (95 % interval {low} to {high})"
    return Answer(
        label,
        f"Knocked out, the shared neurons (k = {k}) cost the operator's own answers {own:z.3f} more probability "
        f"than a control does, and answers that copy a number of the prompt {copied:z.3f}: {spared}.",
        shown,
        ("tasks",),
    )


def _sentences(knockout: pd.DataFrame, over: _Rows, k: int) -> list[str]:
    """Own against the other operators, and circuit against control, by accuracy.

    Args:
        knockout: the circuits' rows of the specificity table, of the knockout.
    """
    control = over["accuracy", "circuit_minus_control", OWN]
    other = over["accuracy", "own_minus_other", OTHER_OPERATORS]
    beyond = over["accuracy", BEYOND, OTHER_OPERATORS]
    lost = percent(knockout.loc[knockout["task"] == knockout["operator"], "accuracy_damage"].mean())
    parts = [
        f"If an operator's shared neurons (k = {k}) are knocked out at the last token, {lost} of its own answers"
    ]
    if other["cells"]:
        parts[0] += f" and {percent(other['second'])} of the other operators' answers are lost; {_ratio(other)}."
        parts.append(f"Own minus other {_points(other)}.")
    else:
        parts[0] += " are lost. No other operator can be compared."
    if control["cells"]:
        parts.append(
            f"The strongest matched control loses {percent(control['second'])} of the own answers; circuit minus "
            f"control {_points(control)}."
        )
    others = over.get(("accuracy", OTHER_CIRCUITS, OWN))
    if others is not None and others["cells"]:
        parts.append(
            f"The strongest other operator's shared neurons lose {percent(others['second'])} of the own answers; "
            f"own minus theirs {_points(others)}."
        )
    if beyond["cells"]:
        parts.append(f"Own minus other, of what the circuit does beyond its control: {_points(beyond)}.")
    deciding = over.get((PRIMARY, OTHER_CIRCUITS, OWN))
    if deciding is not None and deciding["cells"]:
        parts.append(
            f"The question's verdict is by the {PRIMARY} of the answer: {deciding['first']:z.3f} lost by the own, "
            f"{deciding['second']:z.3f} by the strongest other operator's."
        )
    return parts


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """What is exchanged between formats; the damage to other tasks; own operator against others."""
    contrasts, table = (tables[name][tables[name]["k"] == k] for name in ("specificity_contrasts", "specificity"))
    primary = contrasts[contrasts["metric"] == PRIMARY]
    chosen = contrasts[contrasts["intervention"] == KNOCKOUT]
    found = [
        _exchanged(table, primary, k),
        _computed(chosen[chosen["metric"] == PRIMARY], k),
    ]
    named = chosen["task"].isin([OWN, OTHER_OPERATORS]) & (chosen["metric"] == "accuracy")
    shown = chosen[named & ~chosen["contrast"].isin([*_OF_BEST, LOSS, SPARED])]
    shown = shown.drop(columns=["k", "intervention", "metric"]).reset_index(drop=True)
    label = QUESTIONS["specific"].label
    knockout = table[(table["neurons"] == "circuit") & (table["intervention"] == KNOCKOUT)]
    if not knockout["n_neurons"].any():
        return [*found, Answer(label, f"Undefined: no neuron is shared at k = {k}.", shown)]
    over = {(row["metric"], row["contrast"], row["task"]): row for row in overall(chosen).to_dict("records")}
    return [*found, Answer(label, " ".join(_sentences(knockout, over, k)), shown)]
