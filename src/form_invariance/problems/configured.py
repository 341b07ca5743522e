"""Tasks as a configuration states them: its operators, and the other tasks on which circuits are tried."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.problems.operands import OperandRange, evenly_spaced
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, TableTask, Task, pool, prompts_of, stated, target_tokens
from form_invariance.problems.templates import OPERANDS, check_fields, check_task_fields, operands_in


def task_of(settings: str | Mapping[str, Any], limits: Mapping[str, int]) -> Task:
    """The task that an operator, or another task, of a configuration asks.

    Args:
        limits: operand limits of all operators; `settings` may override them.
    """
    if isinstance(settings, str):
        settings = {"expression": settings}
    if "table" in settings:
        return TableTask(Path(settings["table"]), settings.get("answer", "answer"), settings.get("sha256"))
    task_limits = {**limits, **settings.get("operands", {})}
    return Arithmetic(settings["expression"], OperandRange(**task_limits), settings.get("digit"))


def copies(settings: str | Mapping[str, Any]) -> bool:
    """Whether the answer is a number of the prompt, so that nothing is computed."""
    return not isinstance(settings, str) and settings.get("expression") in ("a", "b")


def problems_for(task: Task, template: str) -> pd.DataFrame:
    """The problems of another task: both operands differ, and no two problems give the same prompt.

    Returns:
        Columns as in `pool`.
    """
    problems = pool(task)
    if isinstance(task, TableTask):
        return problems
    problems = problems[problems["a"] != problems["b"]]  # a task may ask for the larger number
    return problems if "{b}" in template else problems.drop_duplicates("a")


def operands_of(task: Task) -> Sequence[str]:
    """The columns of `pool` that tell the problems of another task apart: operands that the answer depends on."""
    return OPERANDS if isinstance(task, TableTask) else operands_in(task.expression) or ["a"]


def prepare(
    task: Task, tokenizer: PromptTokenizer, template: str, problems: pd.DataFrame, where: str
) -> tuple[list[str], np.ndarray]:
    """The prompts of problems, and their targets' token ids, int64, (P,).

    Args:
        template: for arithmetic with the field ``{a}``, and ``{b}`` if the answer depends on b; for a table with
            some of its fields.

    Raises:
        UserError: a field of the template is missing, or a target is not the next single token after its prompt.
    """
    rows = stated(task, problems)
    check_template_fields(task, template, where)
    prompts = prompts_of(template, rows)
    return prompts, target_tokens(tokenizer, prompts, rows, where)


def check_template_fields(task: Task, template: str, where: str) -> None:
    """Check the fields of a template of another task."""
    if isinstance(task, TableTask):
        check_fields(template, where, list(json.loads(pool(task)["fields"].iloc[0])))
    else:
        check_task_fields(template, where, task.expression)


def check_other_task(task: Task, tokenizer: PromptTokenizer, template: str, where: str) -> None:
    """Check a template of another task against a tokenizer, on evenly spaced problems."""
    prepare(task, tokenizer, template, evenly_spaced(problems_for(task, template)), where)
