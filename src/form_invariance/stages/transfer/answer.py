"""Do a format's activations correct another's answers, or do they only bring their own answer?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.contrasts import overall
from form_invariance.stages.transfer.names import CEILINGS, NO_DONOR, NONE
from form_invariance.stages.transfer.table import TRANSFER, TRANSFER_CONTRASTS
from form_invariance.tables.inputs import Input

INPUTS = {
    "transfer": Input(TRANSFER, ("operator", "direction")),
    "transfer_contrasts": Input(TRANSFER_CONTRASTS),
}

_QUESTION = "Do a format's activations correct another's answers?"
_FIGURES = ("transfer_contrasts", "transfer")


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The contrasts over all cells with their verdicts, and the ceilings."""
    contrasts = tables["transfer_contrasts"]
    contrasts = contrasts[contrasts["k"] == k].drop(columns="k")
    own = tables["transfer"][tables["transfer"]["k"].isin([k, NONE])]
    matched = own[own["condition"] == "matched"]
    if not matched["n_neurons"].any():
        sentence = f"No neuron is shared (k = {k}), so there is nothing to transfer."
        return [Answer(_QUESTION, sentence, contrasts, _FIGURES)]
    return [Answer(_QUESTION, _sentence(own, contrasts, k), contrasts, _FIGURES)]


def _sentence(own: pd.DataFrame, contrasts: pd.DataFrame, k: int) -> str:
    means = own.groupby(["operator", "direction", "condition"])["recovered"].mean().groupby("condition").mean()
    rates = {name: percent(value) for name, value in means.items()}
    whole = overall(contrasts).set_index("contrast")

    def told(name: str) -> str:
        value, low, high = (percent(float(whole[column][name])) for column in ("difference", "low", "high"))
        word = whole["verdict"][name]
        return str(word) if word == "undefined" else f"{value} [{low}, {high}] ({word})"

    ceilings = " and ".join(rates.get(name, "undefined") for name in CEILINGS)
    return (
        "Some problems are answered correctly in one format and wrongly in another. If the shared neurons "
        f"(k = {k}) take their activations from the correct run, {rates['matched']} of the wrong answers become "
        f"correct; if they take their mean over prompts, {rates.get(NO_DONOR, 'undefined')}. Matched donor minus "
        "the strongest of no donor, another problem's donor and other neurons: "
        f"{told('matched_minus_baseline')}. Matched donor minus a donor of another problem with the same answer: "
        f"{told('matched_minus_same_answer')}. A donor with another answer imposes it, beyond the rate of "
        f"permuted donors: {told('imposed')}; on problems that both formats get right: {told('interchange')}. The "
        f"ceilings, all late neurons and the residual stream below them, correct {ceilings}. In brackets: 95 % "
        "intervals over pairs and draws; in parentheses: whether the value is above zero."
    )
