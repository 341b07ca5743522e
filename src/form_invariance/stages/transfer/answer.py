"""Do a format's activations correct another's answers, or do they bring their own? How much of them is needed?"""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.contrasts import overall
from form_invariance.stages.questions import QUESTIONS
from form_invariance.stages.transfer.names import CEILINGS, NO_DONOR, NONE
from form_invariance.stages.transfer.table import DOSE, TRANSFER, TRANSFER_CONTRASTS
from form_invariance.tables.inputs import Input

INPUTS = {
    "transfer": Input(TRANSFER, ("operator", "direction")),
    "transfer_contrasts": Input(TRANSFER_CONTRASTS),
    "dose": Input(DOSE, ("operator",), optional=True),
}

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
"""By question: the contrast that answers it, and what it is."""


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Each question by its contrast, the first one with the rates; then the doses, if they were measured."""
    contrasts = tables["transfer_contrasts"]
    contrasts = contrasts[contrasts["k"] == k].drop(columns="k")
    rates = tables["transfer"][tables["transfer"]["k"].isin([k, NONE])]
    doses = [dose_answer(tables["dose"])] if "dose" in tables else []
    shared = rates.loc[rates["condition"] == "matched", "n_neurons"].any()
    answers = []
    for question, (name, compared) in _CONTRASTS.items():
        rows = contrasts[contrasts["contrast"] == name]
        sentence = f"{compared}: {_found(rows)}." if shared else f"No neuron is shared (k = {k})."
        answers.append(Answer(QUESTIONS[question].label, sentence, rows.drop(columns="contrast")))
    if shared:
        first = f"{_rates(rates, k)} {answers[0].sentence} {_BRACKETS}"
        answers[0] = replace(answers[0], sentence=first, figures=("transfer_contrasts", "transfer"))
    return [*answers, *doses]


_BRACKETS = "In brackets: 95 % intervals over pairs and draws; in parentheses: whether the value is above zero."


def _found(contrasts: pd.DataFrame) -> str:
    """The difference over all cells with its interval and verdict."""
    (row,) = overall(contrasts).to_dict("records")
    value, low, high = (percent(float(row[column])) for column in ("difference", "low", "high"))
    word = str(row["verdict"])
    return word if word == "undefined" else f"{value} [{low}, {high}] ({word})"


def _rates(table: pd.DataFrame, k: int) -> str:
    means = table.groupby(["operator", "direction", "condition"])["recovered"].mean().groupby("condition").mean()
    rates = {name: percent(value) for name, value in means.items()}
    ceilings = " and ".join(rates.get(name, "undefined") for name in CEILINGS)
    return (
        "Some problems are answered correctly in one format and wrongly in another. If the shared neurons "
        f"(k = {k}) take their activations from the correct run, {rates['matched']} of the wrong answers become "
        f"correct; if they take their mean over prompts, {rates.get(NO_DONOR, 'undefined')}. The ceilings, all "
        f"late neurons and the residual stream below them, correct {ceilings}."
    )


def dose_answer(rows: pd.DataFrame) -> Answer:
    """The smallest doses that correct half of what the whole transfer corrects."""
    cells = rows.groupby(["kind", "dose", "operator", "donor", "target"])["recovered"].mean()
    by_dose = cells.groupby(["dose", "kind"]).mean().unstack("kind")
    whole = float(by_dose["strength"].loc[1])
    sentence = (
        f"The whole transfer corrects {percent(whole)} of the wrong answers, so there is no effect to halve."
    )
    if not rows["n_neurons"].any():
        sentence = f"No neuron is shared (k = {rows['k'].iloc[0]}), so there is nothing to transfer."
    elif whole > 0:
        kinds = ("strength", "neurons", "neurons_random")
        strength, best, random = (_smallest(by_dose[kind], whole / 2) for kind in kinds)
        sentence = (
            f"The whole transfer (k = {rows['k'].iloc[0]}) corrects {percent(whole)} of the wrong answers (mean "
            f"over operators and directions). Half of that is reached if every shared neuron moves {strength} of "
            f"the way to the donor's activation, or if {best} of the neurons, the best first, move all the way, "
            f"or {random} of them in random order. These are the smallest of the measured doses that reach it."
        )
    question = "How much of the activation must be transferred?"
    return Answer(question, sentence, by_dose.reset_index(), ("dose",))


def _smallest(recovered: pd.Series, wanted: float) -> str:
    """The smallest dose that recovers at least `wanted`, from recovery by dose."""
    return f"{recovered.index[recovered >= wanted].min():.0%}"
