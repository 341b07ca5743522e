"""Does the precision change the ranking?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.beyond.precision.table import PRECISION
from form_invariance.experiment.answers import Answer, percent
from form_invariance.tables.columns import EVERY_LAYER

INPUTS = {"precision": PRECISION}
QUESTION = "Does the precision change the ranking?"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """How far the ranking is from float32's, by cell."""
    table = tables["precision"]
    cells = table[table["layer"] == EVERY_LAYER].drop(columns="layer")
    row, correlation, overlap = cells.iloc[0], cells["rank_correlation"], cells["overlap"]
    sentence = (
        f"{row['prompts']} train prompts of each cell were also ranked in float32. Spearman's correlation of the "
        f"mean effects in {row['dtype']} with those in float32 is {correlation.mean():.2f} in the mean over "
        f"layers and cells (lowest cell {correlation.min():.2f}). Of each layer's best {row['top']} neurons, "
        f"{percent(overlap.mean())} are the same (lowest cell {percent(overlap.min())})."
    )
    return [Answer(QUESTION, sentence, cells)]
