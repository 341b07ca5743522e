"""Are they the same neurons in every format?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.experiment.answers import Answer, in_how_many, percent
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.stages.overlap.table import (
    BEST,
    FORMAT_CORRELATION,
    OVERLAP,
    RELIABILITY,
    all_formats,
    beyond_chance,
    nothing_claimed,
)
from form_invariance.tables.columns import ALL, EVERY_LAYER

INPUTS = {"overlap": OVERLAP, "reliability": RELIABILITY, "format_correlation": FORMAT_CORRELATION}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The overlap of all formats compared with chance and with the ceiling, and the correlation of the effects."""
    overlaps, again = all_formats(tables["overlap"]), tables["reliability"]
    at_size, again = overlaps[overlaps["k"] == k], again[again["k"] == k]
    rows = at_size.set_index("operator")[["jaccard", "low", "high", "chance"]]
    by_kind = again.groupby(["operator", "kind"])["jaccard"].mean().unstack("kind")
    parts = by_kind.reindex(index=rows.index, columns=["across_parts", "parts"])
    table = rows.join(parts).reset_index()
    table.columns = pd.Index(
        ["operator", "Jaccard", "low", "high", "chance", "Jaccard by parts", "ceiling of that"]
    )
    means = table[["Jaccard", "chance", "Jaccard by parts", "ceiling of that"]].mean()
    jaccard, chance, across, ceiling = (percent(mean, 1) for mean in means)
    neurons, candidates = (percent(at_size[f"chance_{kind}"].mean(), 1) for kind in ("neurons", "candidates"))
    nothing = nothing_claimed(k, at_size["candidates"].min())
    but = f", but {nothing}" if nothing else ""
    sentence = (
        f"{jaccard} of the neurons that are among the best {k} of a layer in any format are among them in all "
        f"formats (mean over operators); by chance {chance}, the larger of {neurons} for random neurons of the "
        f"layer and {candidates} for random candidates. If each format is ranked by a part of its "
        f"prompts, they overlap by {across}; as many parts of one format's prompts overlap by {ceiling}, which "
        "equal formats would reach. The Jaccard is surely above chance "
        f"{in_how_many(beyond_chance(at_size)['low'] > 0)} operators{but}. {_best(again, k)} "
        f"{_correlation(tables['format_correlation'])}"
    )
    return [Answer(QUESTIONS["same"].label, sentence, table, ("differing", "overlap"))]


def _best(table: pd.DataFrame, k: int) -> str:
    """A sentence on how the best neurons change the answer's probability, and on the largest prompt's share."""
    means = table.drop_duplicates(["operator", "format"])[[*BEST]].mean()
    by_probability, raising, largest = (percent(mean) for mean in means)
    return (
        f"Patching raises the right answer's probability for {raising} of a format's best {k}, they overlap by "
        f"{by_probability} with the {k} that lower it most, and a single prompt makes up {largest} of the median "
        f"one's effect (means over formats and operators)."
    )


def _correlation(table: pd.DataFrame) -> str:
    """A sentence: the correlation of two formats' effects, as measured and without the noise of the prompts."""
    everywhere = (table["layer"] == EVERY_LAYER) & (table["operator"] == ALL) & (table["formats"] == ALL)
    row = table[everywhere].iloc[0]
    pearson, corrected = (
        "undefined" if pd.isna(row[name]) else f"{row[name]:z.2f}" for name in ("pearson", "corrected")
    )
    limits = "" if pd.isna(row["low"]) else f" [{row['low']:z.2f}, {row['high']:z.2f}]"
    return f"The correlation of two formats' effects is {pearson}; corrected for reliability, {corrected}{limits}."
