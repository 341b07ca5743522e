"""Can the first stage of the ranking be trusted?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.audit.table import AUDIT
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"audit": Input(AUDIT)}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Recall of the exact best k among the first stage's best."""
    table = tables["audit"]
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] == k)]
    recall = pooled.groupby("candidates")["recall"].mean()
    enough, near = recall.index[recall >= 0.99].min(), recall.index[recall.index >= k].min()
    sentence = (
        f"Every neuron was patched exactly. Of the exact best {k} of a layer, {percent(recall[near])} are among "
        f"the best {near} by attribution; to keep 99%, {enough} neurons would have to be patched. The rank "
        f"correlation of attribution and exact effect is {pooled['rank_correlation'].mean():.2f}."
    )
    return [Answer("Can the ranking's first stage be trusted?", sentence, recall.reset_index(), ("audit",))]
