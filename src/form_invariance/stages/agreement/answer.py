"""Do the shared neurons do the same in every format?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.agreement.table import AGREEMENT
from form_invariance.stages.answers import Answer, in_how_many, percent
from form_invariance.tables.inputs import Input

INPUTS = {"agreement": Input(AGREEMENT, ("operator",))}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Exact agreement of strict heuristic families, compared with permuted families."""
    wanted = {"mode": "strict", "activations": "observed", "over": "all", "scope": "all", "statistic": "exact"}
    table = tables["agreement"]
    own = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    found = own[["operator", "neurons", "observed", "null_mean", "p"]].dropna()
    found.columns = pd.Index(["operator", "neurons", "same families", "if permuted", "p"])
    sentence = "No shared neuron has a label beyond chance in every format, so there is nothing to compare."
    if len(found):
        same, permuted = (percent(found[name].mean()) for name in ("same families", "if permuted"))
        sentence = (
            f"Of the neurons that have a label beyond chance in every format, {same} have exactly the same "
            f"heuristic families in all of them (mean over operators); {permuted} if neurons are permuted. p < "
            f"0.05 {in_how_many(found['p'] < 0.05)} operators."
        )
    return [Answer("Do the shared neurons do the same in every format?", sentence, found, ("heuristics",))]
