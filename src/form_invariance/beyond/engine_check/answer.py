"""Is the fast engine exact on this model?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.beyond.engine_check.table import COMPARED, ENGINE_CHECK
from form_invariance.experiment.answers import Answer

INPUTS = {"engine_check": ENGINE_CHECK}
QUESTION = "Is the fast engine exact on this model?"


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """How far the fast engine is from TransformerLens, by check."""
    table = tables["engine_check"]
    row = table.iloc[0]
    if row["status"] != COMPARED:
        return [Answer(QUESTION, f"It was not checked: {row['status']}.", table.iloc[:0])]
    largest = dict.fromkeys(("difference", "scale", "error", "tolerance"), "max")
    checks = table.groupby("check", sort=False).agg({"values": "sum", **largest}).reset_index()
    patches, no_op = (checks[checks["check"] == check].iloc[0] for check in ("patch", "no_op"))
    sentence = (
        f"Yes, within the precision of {row['dtype']}. TransformerLens ran whole sequences with hooks, for "
        f"{row['prompts']} prompts of each format: logits, single-neuron patches in every late layer, "
        f"attribution, keep-only and transfer. Of {checks['values'].sum():,} values the largest relative "
        f"error is {checks['error'].max():.1e}; the precision allows {checks['tolerance'].max():.0e}. The effects "
        f"of patches go up to {patches['scale']:.2g} and differ by at most {patches['difference']:.1e}. Patches "
        f"that change nothing have an effect of at most {no_op['difference']:.1g}."
    )
    return [Answer(QUESTION, sentence, checks)]
