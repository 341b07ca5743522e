"""How much of the activations must be transferred?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.dose.table import DOSE
from form_invariance.tables.inputs import Input

INPUTS = {"dose": Input(DOSE, ("operator",))}


def _smallest(recovered: pd.Series, wanted: float) -> str:
    """The smallest dose that recovers at least `wanted`, from recovery by dose."""
    return f"{recovered.index[recovered >= wanted].min():.0%}"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The smallest doses that correct half of what the whole transfer corrects."""
    rows = tables["dose"]
    cells = rows.groupby(["kind", "dose", "operator", "donor", "target"])["recovered"].mean()
    found = cells.groupby(["dose", "kind"]).mean().unstack("kind")
    whole = float(found["strength"].loc[1])
    sentence = (
        f"The whole transfer corrects {percent(whole)} of the wrong answers, so there is no effect to halve."
    )
    if not rows["n_neurons"].any():
        sentence = f"No neuron is shared (k = {rows['k'].iloc[0]}), so there is nothing to transfer."
    elif whole > 0:
        kinds = ("strength", "neurons", "neurons_random")
        strength, best, random = (_smallest(found[kind], whole / 2) for kind in kinds)
        sentence = (
            f"The whole transfer (k = {rows['k'].iloc[0]}) corrects {percent(whole)} of the wrong answers (mean "
            f"over operators and directions). Half of that is reached if every shared neuron moves {strength} of "
            f"the way to the donor's activation, or if {best} of the neurons, the best first, move all the way, "
            f"or {random} of them in random order. These are the smallest of the measured doses that reach it."
        )
    return [Answer("How much of the activation must be transferred?", sentence, found.reset_index(), ("dose",))]
