"""Do a format's activations correct another's answers, or do they bring their own?"""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from form_invariance.experiment.answers import FIXED, UNDEFINED, Answer, percent
from form_invariance.experiment.contrasts.engine import FEWEST, RATIO
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.contrasts.rows import overall
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.contrasts.values import RATE
from form_invariance.experiment.contrasts.verdicts import FEWEST_PAIRS, in_words
from form_invariance.stages.transfer.names import CEILINGS, NO_DONOR, NONE
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.columns import ALL

INPUTS = {"transfer": TRANSFER, "contrasts": CONTRASTS}

_CONTRASTS = {
    "repaired": (
        "matched_minus_baseline",
        "Matched donor minus the strongest of no donor, another problem's donor and other neurons",
    ),
    "beyond_the_answer": (
        "matched_minus_same_answer",
        "Matched donor minus a donor of another problem with the same answer",
    ),
    "imposed": (
        "imposed",
        "Where the target is wrong, a donor with another answer imposes it, beyond the rate of permuted donors",
    ),
    "interchange": (
        "interchange",
        "On problems that both formats get right, a donor with another answer imposes it, beyond the rate of "
        "permuted donors",
    ),
}
"""For each question, the contrast that answers it, and its description."""

_COPYING = {
    "beyond_the_answer": (
        "matched_minus_copied_answer",
        "Matched donor minus a donor that copies the right answer",
        "the repair is arithmetic, not the answer alone",
    ),
    "interchange": (
        "interchange_minus_copied",
        "A donor that computed another answer imposes it, minus one that copied the same answer",
        "the override is arithmetic, not the answer alone",
    ),
}
"""For each question, the contrast with donors that copy, its description, and what follows if it is above zero."""


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """One answer for each question, from its contrast; the first also has the rates."""
    contrasts = tables["contrasts"]
    contrasts = contrasts[(contrasts["k"] == k) & (contrasts["metric"] == RATE)]
    few = (contrasts["format"] == ALL) & (contrasts["prompts"] < FEWEST_PAIRS)
    contrasts = in_words(contrasts.assign(verdict=contrasts["verdict"].mask(few, UNDEFINED)))
    contrasts = contrasts.drop(columns=["k", "intervention", "task", "metric", *RATIO])
    rates = tables["transfer"][tables["transfer"]["k"].isin([k, NONE])]
    shared = rates.loc[rates["condition"] == "matched", "n_neurons"].any()
    answers = []
    for question, (name, compared) in _CONTRASTS.items():
        rows = contrasts[contrasts["contrast"] == name].drop(columns="contrast")
        sentence = f"{compared}: {_difference(rows)}.{_copied(contrasts, question)}"
        sentence = sentence if shared else f"No neuron is shared (k = {k})."
        shown = rows.rename(columns={"format": "direction"})
        answers.append(Answer(QUESTIONS[question].label, sentence, shown))
    if shared:
        first = f"{_rates(rates, k)} {answers[0].sentence} {_BRACKETS}"
        answers[0] = replace(answers[0], sentence=first, figures=("transfer_contrasts", "transfer"))
    return answers


_BRACKETS = (
    f"In brackets: 95 % intervals ({FIXED}); in parentheses: whether the value is above zero, and the pairs that "
    "have both values."
)


def _difference(contrasts: pd.DataFrame) -> str:
    """The difference over all cells, with its interval, verdict and number of pairs."""
    (row,) = overall(contrasts).to_dict("records")
    value, low, high = (percent(float(row[column])) for column in ("difference", "low", "high"))
    word = str(row["verdict"])
    if word == UNDEFINED:
        return word
    return f"{value} [{low}, {high}] ({word}; n = {row['prompts']:,} in {row['cells']} cells)"


def _copied(contrasts: pd.DataFrame, question: str) -> str:
    """The sentence on donors that copy; empty if the question or the table has none."""
    if question not in _COPYING:
        return ""
    name, compared, follows = _COPYING[question]
    difference = _difference(contrasts[contrasts["contrast"] == name])
    if difference == UNDEFINED:
        return ""
    follows = follows if "(yes" in difference else "an answer that was copied may do the same"
    return f" {compared}: {difference}; so {follows}."


def _rates(table: pd.DataFrame, k: int) -> str:
    cells = ["operator", "donor", "target", "condition"]
    means = table.groupby(cells)["recovered"].mean().groupby("condition").mean()
    matched = table[(table["condition"] == "matched") & table["recovered"].notna()]
    rates = {name: percent(value) for name, value in means.items()}
    ceilings = " and ".join(rates.get(name, UNDEFINED) for name in CEILINGS)
    return (
        "Some problems are answered correctly in one format and wrongly in another. If the shared neurons "
        f"(k = {k}) take their activations from the correct run, {rates['matched']} of the wrong answers become "
        f"correct (n = {matched['pairs'].sum():,} in {len(matched)} cells); if they take their mean over "
        f"prompts, {rates.get(NO_DONOR, UNDEFINED)}. The ceilings, all late neurons and the residual stream below "
        f"them, correct {ceilings}. These are means over all cells, the differences "
        f"that follow over those with at least {FEWEST} pairs."
    )
