"""Are they the same attention heads in every format?"""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from form_invariance.stages.answers import Answer, in_how_many, percent
from form_invariance.stages.groups import of_all_formats
from form_invariance.stages.heads.overlap_table import ALL, HEAD_OVERLAP, ROUTING, middle_size
from form_invariance.stages.heads.table import HEADS
from form_invariance.tables.inputs import Input

INPUTS = {"heads": Input(HEADS, ("format", "operator")), "head_overlap": Input(HEAD_OVERLAP, ("operator",))}
_COLUMNS = ["operator", "layers", "h", "jaccard", "low", "high", "chance", "ceiling"]


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The overlap of the formats' best heads, and how much the shared heads attend to the operands."""
    sizes = of_all_formats(tables["head_overlap"])[_COLUMNS]
    h = middle_size(sizes)
    rows = sizes[sizes["h"] == h]
    mean = rows.groupby("layers")[["jaccard", "chance", "ceiling"]].mean().map(partial(percent, decimals=1))
    everywhere, beyond = mean.loc[ALL], in_how_many((rows["low"] > rows["chance"])[rows["layers"] == ALL])
    sentence = (
        f"{everywhere['jaccard']} of the attention heads among the best {h} in any format are among them in "
        f"all formats (mean over operators); by chance {everywhere['chance']}. Between halves of one format's "
        f"prompts, the ceiling, it is {everywhere['ceiling']}. The interval is above chance {beyond} "
        "operators."
    )
    if ROUTING in mean.index:
        routing = mean.loc[ROUTING]
        sentence += (
            f" Among the heads below the late layers it is {routing['jaccard']} ({routing['chance']} by "
            f"chance, ceiling {routing['ceiling']})."
        )
    sentence += _attention_to_operands(tables["heads"], h)
    return [Answer("Are they the same attention heads in every format?", sentence, sizes, ("heads",))]


def _attention_to_operands(cells: pd.DataFrame, h: int) -> str:
    """How much the shared heads attend to the operands, in a sentence; empty without shared heads or operands."""
    worst = cells.groupby(["operator", "layer", "head"])["rank"].transform("max")
    operands = cells["attention_a"] + cells["attention_b"]
    if not (worst <= h).any() or operands[worst <= h].isna().all():
        return ""
    shared, mean = (percent(some.mean()) for some in (operands[worst <= h], operands))
    return (
        f" From the last token, the heads among the best {h} in every format give {shared} of their attention to "
        f"the two operands; the average head {mean}."
    )
