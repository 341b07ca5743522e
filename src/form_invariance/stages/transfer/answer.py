"""Do a format's activations correct another's answers?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, in_how_many, percent
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.inputs import Input

INPUTS = {"transfer": Input(TRANSFER, ("operator", "direction"))}
_CONDITIONS = ["matched", "random", "mismatched"]


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The share of wrong answers that transfer corrects, by operator and direction."""
    own = tables["transfer"][tables["transfer"]["k"] == k]
    key = ["operator", "donor", "target"]
    pairs = own[own["condition"] == "matched"].set_index(key)["pairs"]
    rates = own.set_index([*key, "condition"])["recovered"].unstack("condition")
    found = pd.concat([pairs, rates.reindex(index=pairs.index, columns=_CONDITIONS)], axis=1).reset_index()
    matched, random, mismatched = (percent(found[name].mean()) for name in _CONDITIONS)
    sentence = (
        "Some problems are answered correctly in one format and wrongly in another. If the shared neurons "
        f"(k = {k}) take their activations from the correct run, {matched} of the wrong answers become correct; "
        f"with as many random neurons {random}; with another problem's activations {mismatched}. The circuit "
        f"corrects more than random neurons {in_how_many(found['matched'] > found['random'])} directions."
    )
    return [Answer("Do a format's activations correct another's answers?", sentence, found, ("transfer",))]
