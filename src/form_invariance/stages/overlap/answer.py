"""Are they the same neurons in every format?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, in_how_many, percent
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY, all_formats
from form_invariance.tables.inputs import Input

INPUTS = {"overlap": Input(OVERLAP, ("operator",)), "reliability": Input(RELIABILITY, ("operator",))}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The overlap of all formats compared with chance and with the ceiling."""
    every, again = all_formats(tables["overlap"]), tables["reliability"]
    rows = every[every["k"] == k].set_index("operator")[["jaccard", "low", "high", "chance"]]
    by_kind = again[again["k"] == k].groupby(["operator", "kind"])["jaccard"].mean().unstack("kind")
    parts = by_kind.reindex(index=rows.index, columns=["across_parts", "parts"])
    table = rows.join(parts).reset_index()
    table.columns = pd.Index(
        ["operator", "Jaccard", "low", "high", "chance", "Jaccard by parts", "ceiling of that"]
    )
    means = table[["Jaccard", "chance", "Jaccard by parts", "ceiling of that"]].mean()
    jaccard, chance, across, ceiling = (percent(mean, 1) for mean in means)
    sentence = (
        f"{jaccard} of the neurons that are among the best {k} of a layer in any format are among them in all "
        f"formats (mean over operators); by chance {chance}. If each format is ranked by a part of its "
        f"prompts, the value is {across}; for as many parts of one format's prompts, the ceiling, it is "
        f"{ceiling}. The interval is above chance {in_how_many(table['low'] > table['chance'])} operators."
    )
    return [Answer("Are they the same neurons in every format?", sentence, table, ("overlap", "differing"))]
