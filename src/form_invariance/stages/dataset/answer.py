"""Do eval prompts ask for answers of their own?"""

from collections.abc import Mapping

import pandas as pd

from form_invariance.experiment.answers import Answer, in_how_many, percent
from form_invariance.stages.dataset.table import DATASET

QUESTION = "Do eval prompts have other answers than train prompts?"
INPUTS = {"dataset": DATASET}


def answer(tables: Mapping[str, pd.DataFrame], k: int) -> list[Answer]:
    """The cells with answers in both splits; without any, no answer, so that the report has no such section."""
    rows = []
    for (form, operator), cell in tables["dataset"].groupby(["format", "operator"], sort=False):
        train, evaluation = (cell.loc[cell["split"] == split, "answer"] for split in ("train", "eval"))
        shared = evaluation.isin(train)
        counts = train.nunique(), evaluation.nunique(), evaluation[shared].nunique()
        rows.append((operator, form, *counts, shared.mean()))
    names = ["operator", "format", "answers of train", "answers of eval", "in both", "eval prompts with these"]
    table = pd.DataFrame(rows, columns=names)
    both = table["in both"] > 0
    if not both.any():
        return []
    share = percent(table.loc[both, "eval prompts with these"].max())
    sentence = (
        f"Answers are in both splits {in_how_many(both)} cells, because these have too few different answers to "
        f"keep them apart: up to {share} of a cell's eval prompts have an answer that a train prompt has."
    )
    return [Answer(QUESTION, sentence, table[both])]
