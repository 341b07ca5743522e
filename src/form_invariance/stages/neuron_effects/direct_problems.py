"""The problems of which direct effects are measured: a table's rows, or pairs of the grid of the heat maps."""

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, TableTask, pool, stated, targets
from form_invariance.randomness import generator
from form_invariance.stages.heuristics.grid_options import grid_of
from form_invariance.stages.heuristics.pairs import grid_prompts
from form_invariance.stages.task_options import task_of

_SHOWN = ["a", "b", "answer", "target", "fields"]


def draw(size: int, most: int, seed: int, operator: str) -> np.ndarray:
    """The places of at most `most` of `size` problems, in ascending order; the same for all models and formats."""
    if size <= most:
        return np.arange(size)
    return np.sort(generator(seed, "direct-effects", operator).choice(size, most, replace=False))


@dataclass(frozen=True)
class Problems:
    """Problems with their prompts, and the answers of all problems, which are more than the drawn ones.

    Attributes:
        table: columns a, b, answer, target, fields, answer_token (the target's).
        prompts: one a row.
        answers: the text of each target by its token id, in ascending order. Of a table, several answers may begin
            with one token.
    """

    table: pd.DataFrame
    prompts: list[str]
    answers: dict[int, str]


def read_problems(arguments: argparse.Namespace, tokenizer: PromptTokenizer) -> Problems:
    """The problems that the options name, as many as they allow.

    Raises:
        UserError: the template breaks a rule, or there is no problem.
    """
    task, where = task_of(arguments), f"template of {arguments.operator}"
    if isinstance(task, TableTask):
        problems = stated(task, pool(task))
        prompts, tokens = targets(task, tokenizer, arguments.template, problems, where)
    else:
        grid = grid_of(arguments)
        pairs = pd.DataFrame({"a": grid.a, "b": grid.b, "answer": grid.answer})
        problems = stated(Arithmetic(task.expression, task.limits), pairs) if grid.asked is None else grid.asked
        prompts, tokens = grid_prompts(grid, tokenizer, arguments.template, where)
    whole = problems[_SHOWN].assign(answer_token=tokens)
    texts = whole.groupby("answer_token")["target"].unique().map(" / ".join)
    answers = dict(zip(texts.index.tolist(), texts.tolist(), strict=True))
    rows = draw(len(problems), arguments.problems, arguments.seed, arguments.operator)
    return Problems(whole.iloc[rows], [prompts[row] for row in rows], answers)
