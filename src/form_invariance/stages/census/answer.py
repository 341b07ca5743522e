"""Can the model do the problems?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.experiment.answers import Answer
from form_invariance.stages.census.table import CENSUS

QUESTION = "Can the model do the problems?"
INPUTS = {"census": CENSUS}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The share of right answers in each cell."""
    census = tables["census"]
    right = census[census["uniform"]].groupby(["format", "operator"], sort=False)["correct"].mean().reset_index()
    ends = right.sort_values("correct", kind="stable").iloc[[0, -1]].itertuples(index=False)
    worst, best = (f"{share:.1%} ({name} {operator})" for name, operator, share in ends)
    sentence = f"It answers {worst} to {best} of the problems correctly."
    order = right["operator"].unique()
    table = right.pivot(index="operator", columns="format", values="correct").loc[order, right["format"].unique()]
    return [Answer(QUESTION, sentence, table.reset_index())]
