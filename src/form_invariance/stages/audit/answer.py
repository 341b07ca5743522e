"""Can the first stage of the ranking be trusted, and which method is best?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.audit.table import AUDIT
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"audit": Input(AUDIT)}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """Recall of the exact best k among each method's best."""
    table = tables["audit"]
    pooled = table[(table["layer"] == EVERY_LAYER) & (table["k"] == k)]
    near = pooled.loc[pooled["candidates"] >= k, "candidates"].min()
    recall = f"recall of {near} candidates"
    near_rows = pooled[pooled["candidates"] == near].rename(columns={"recall": recall})
    methods = near_rows.groupby("method", as_index=False)[[recall, "enough", "rank_correlation"]].mean()
    parts = [
        f"{percent(row[recall])} by {row['method']} ({row['enough']:.0f} candidates keep 99%, rank correlation "
        f"{row['rank_correlation']:.2f})"
        for _, row in methods.iterrows()
    ]
    sentence = (
        f"Every neuron was patched exactly. Of the exact best {k} of a layer, the first {near} contain "
        f"{'; '.join(parts)}. All are means over cells."
    )
    return [Answer("Can the ranking's first stage be trusted?", sentence, methods, ("audit",))]
