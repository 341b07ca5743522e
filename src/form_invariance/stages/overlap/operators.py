"""Overlap of two operators' rankings in one format: what a circuit of any operator shares with another one."""

from collections.abc import Mapping, Sequence

import pandas as pd

from form_invariance.stages.overlap.compute import overlap_table
from form_invariance.stages.overlap.table import OPERATOR_OVERLAP
from form_invariance.stages.patching.effects import Effects
from form_invariance.tables.columns import EVERY_LAYER


def operator_overlap_table(
    cells: Mapping[str, Mapping[str, Effects]], ks: Sequence[int], resamples: int, seed: int
) -> pd.DataFrame:
    """Jaccard of the top k of every two operators in each format, pooled over the late layers.

    Args:
        cells: effects by format and operator.
        ks: circuit sizes.
        resamples: bootstrap resamples over train prompts, within each operator independently.

    Returns:
        The operator_overlap table; empty if there is one operator.
    """
    tables = []
    for name, operators in cells.items():
        if len(operators) > 1:
            table = overlap_table(operators, ks, resamples, seed).rename(columns={"formats": "operators"})
            pair = (table["layer"] == EVERY_LAYER) & (table["operators"].str.count(r"\+") == 1)
            tables.append(table[pair].assign(format=name)[list(OPERATOR_OVERLAP.columns)])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(OPERATOR_OVERLAP.columns))
