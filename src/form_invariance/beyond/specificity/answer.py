"""Does one format's circuit serve another, is it only for what is computed, is it of this operator?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.table import FEWEST, SPECIFICITY
from form_invariance.experiment.answers import Answer, percent
from form_invariance.experiment.contrasts.cells import OTHER_OPERATORS, OWN
from form_invariance.experiment.contrasts.entries import CONTRASTS as ENTRIES
from form_invariance.experiment.contrasts.entries import PRIMARY
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.verdicts import in_words
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.measurements import TASK_MEANS
from form_invariance.experiment.neuron_sets import BEST_IN, COMMON
from form_invariance.tables.columns import ALL

INPUTS = {"specificity": SPECIFICITY, "contrasts": CONTRASTS}
EXCHANGED, HALF = "exchanged_minus_own_beyond_control", "half_minus_own_beyond_control"
ANY_OPERATOR, SPARED = "exchanged_minus_other_operators_best", "own_minus_copied_of_own"
CONTROL, OTHER = "circuit_minus_control", "own_minus_other"
BEYOND, OTHER_CIRCUITS = "own_minus_other_beyond_control", "own_minus_other_circuits"


def _difference(row: Mapping[Any, Any]) -> str:
    """A difference of probabilities with its interval and verdict."""
    if np.isnan(row["low"]):  # a single draw of a control gives none
        return f"{row['difference']:z.3f} (no interval): {row['verdict']}"
    return f"{row['difference']:z.3f} [{row['low']:z.3f}, {row['high']:z.3f}]: {row['verdict']}"


def _ratio(row: Mapping[Any, Any], names: str = "own / other") -> str:
    if np.isnan(row["ratio"]):
        return "no ratio, because the interval of the latter is not above zero"
    return f"{names} {row['ratio']:z.2f} ({row['ratio_low']:z.2f} to {row['ratio_high']:z.2f})"


_OF_BEST = (
    *(EXCHANGED, HALF, ANY_OPERATOR),
    *("common_minus_control", "own_only_minus_control", "other_only_minus_control"),
)
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
    label = QUESTIONS["exchange"].label
    shown = contrasts[contrasts["contrast"].isin(_OF_BEST)].drop(columns=["k", "task", "metric"])
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
    tasks = contrasts[(contrasts["contrast"] == CONTROL) & (contrasts["operator"] == ALL)]
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


def _specific(contrasts: pd.DataFrame, k: int) -> Answer:
    """What the circuit's knockout costs its own operator, and the others; what other operators' circuits cost.

    Args:
        contrasts: of one k, of the knockout, by the primary metric.
    """
    label = QUESTIONS["specific"].label
    shown = contrasts[contrasts["contrast"].isin([CONTROL, OTHER, BEYOND, OTHER_CIRCUITS])]
    shown = shown[shown["task"].isin([OWN, OTHER_OPERATORS])]
    shown = shown.drop(columns=["k", "intervention", "metric"]).reset_index(drop=True)
    rows = overall(contrasts)
    by = {(row["contrast"], row["task"]): row for row in rows[rows["cells"] > 0].to_dict("records")}
    control = by.get((CONTROL, OWN))
    other = by.get((OTHER, OWN))
    if control is None:
        return Answer(label, f"Undefined at k = {k}: no neuron is shared, or no control could be drawn.", shown)
    cost = f"Knocked out, an operator's shared neurons (k = {k}) cost its own answers {control['first']:z.3f}"
    level = f"the strongest control costs its own {control['second']:z.3f} (difference {_difference(control)})"
    if other is None:
        return Answer(label, f"{cost} probability; {level}. No other operator can be compared.", shown)
    sentences = [f"{cost} probability, the other operators' {other['second']:z.3f} ({_ratio(other)}); {level}."]
    if (beyond := by.get((BEYOND, OWN))) is not None:
        sentences.append(f"Own minus other, of what the circuit does beyond its control: {_difference(beyond)}.")
    if (strongest := by.get((OTHER_CIRCUITS, OWN))) is not None:
        sentences.append(
            f"The strongest other operator's shared neurons cost the own answers {strongest['second']:z.3f}; own "
            f"minus theirs: {_difference(strongest)}."
        )
    return Answer(label, " ".join(sentences), shown)


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """What is exchanged between formats; the damage to other tasks; own operator against others."""
    contrasts, table = (tables[name][tables[name]["k"] == k] for name in ("contrasts", "specificity"))
    here = [name for name, entry in ENTRIES.items() if entry.means == TASK_MEANS]
    primary = in_words(contrasts[(contrasts["metric"] == PRIMARY) & contrasts["contrast"].isin(here)])
    knockout = primary[primary["intervention"] == KNOCKOUT]
    return [_exchanged(table, primary, k), _computed(knockout, k), _specific(knockout, k)]
