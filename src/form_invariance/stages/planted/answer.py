"""Does the pipeline find what was planted?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.stages.answers import Answer, percent
from form_invariance.stages.planted.table import PLANTED
from form_invariance.tables.columns import EVERY_LAYER
from form_invariance.tables.inputs import Input

INPUTS = {"planted": Input(PLANTED)}


def answer(tables: Mapping[str, pd.DataFrame]) -> Answer:
    """What the pipeline finds in the two constructed models; it concerns no model of the run."""
    table = tables["planted"]
    table = table[table["layer"] == EVERY_LAYER].drop(columns="layer")

    def mean(measure: str, circuit: str, column: str = "value") -> str:
        rows = table[(table["measure"] == measure) & (table["circuit"] == circuit)]
        return percent(rows[column].mean())

    def with_control(measure: str) -> str:
        return f"{mean(measure, 'shared')} ({mean(measure, 'shared', 'random')} with as many random neurons)"

    rightly_undefined = table["expected"].isna() & table["value"].isna()
    deviations = (table["value"] - table["expected"]).abs()[~rightly_undefined]
    ranked = table[table["measure"].isin(["first_stage", "ranking"])]
    first = (ranked["value"] * ranked["of"]).groupby(ranked["measure"]).sum().round().astype(int)
    planted = ranked.loc[ranked["measure"] == "ranking", "of"].sum()
    sentence = (
        "Two models were built by hand, so the neurons that carry the answer are known: the same neurons in every "
        f"format, or different ones in each. Of these {planted} neurons (over formats), exact patching ranks "
        f"{first['ranking']} first, attribution {first['first_stage']}. The shared ones alone keep "
        f"{with_control('keep_only')} of what the model does; without them {with_control('knockout')} is left; "
        f"their activations correct {with_control('transfer')} of the wrong answers. In the model whose formats "
        f"have different neurons, {mean('overlap', 'separate')} of the formats' best are found to be shared; what "
        f"shared neurons keep there is {mean('keep_only', 'separate')}. The largest deviation from the "
        f"construction is {deviations.max(skipna=False):.3f}."
    )
    return Answer("Does the pipeline find what was planted?", sentence, table, ("planted",))
