"""How faithful are the best neurons, whatever the size of the circuit?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.faithfulness.table import CMD, CPR, EXACT, FAITHFULNESS_AREAS, GAIN, RANDOM, RETAINED
from form_invariance.tables.inputs import Input

INPUTS = {"faithfulness": Input(FAITHFULNESS_AREAS, ("operator",))}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """CPR and CMD of each order, means over cells, and in how many cells the interval is better than random."""
    table = tables["faithfulness"]
    areas = table[table["measure"].isin([CPR, CMD])]
    means = areas.pivot_table(index=["ablation", "order"], columns="measure", values="value", sort=False)
    gains = table[table["measure"] == CPR + GAIN]
    better = gains.assign(better=gains["low"] > 0).groupby(["ablation", "order"])["better"].agg(["sum", "size"])
    summary = means.join(better.rename(columns={"sum": "cells above random", "size": "cells"})).reset_index()
    parts = []
    for ablation, rows in summary.groupby("ablation", sort=False):
        exact, shared, random = (rows[rows["order"] == name].iloc[0] for name in (EXACT, "shared", RANDOM))
        own = table[
            (table["measure"] == RETAINED) & (table["order"] == "shared") & (table["ablation"] == ablation)
        ]
        kept = (
            f" and keep {percent(own['value'].mean())} of what the format's own best gain over random ones"
            if own["value"].notna().any()
            else ""
        )
        parts.append(
            f"with {ablation} ablation of the others CPR is {exact[CPR]:.2f} for the best by exact effect, "
            f"{shared[CPR]:.2f} for the best in all formats and {random[CPR]:.2f} for random ones (CMD "
            f"{exact[CMD]:.2f}, {shared[CMD]:.2f}, {random[CMD]:.2f}); the best in all formats are above random "
            f"in {shared['cells above random']:.0f} of {shared['cells']:.0f} cells{kept}"
        )
    sentence = (
        "Neurons are kept in an order, more and more of them, and the areas under the logit difference are as in "
        f"MIB's circuit track (CPR, best 1; CMD, best 0; means over cells): {'; '.join(parts)}."
    )
    return [Answer("How faithful are the best neurons, at any size?", sentence, summary, ("faithfulness",))]
