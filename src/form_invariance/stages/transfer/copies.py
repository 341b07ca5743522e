"""Donors that do not compute: prompts of a copying task, whose answer is a number in the prompt.

What these donors correct or impose is due to their answer alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from form_invariance.experiment.intervene import answer
from form_invariance.experiment.run import Run
from form_invariance.problems.configured import prepare, problems_for, task_of
from form_invariance.problems.tasks import Task, stated
from form_invariance.randomness import generator
from form_invariance.stages.transfer.conditions import Condition, Group, Plans
from form_invariance.stages.transfer.names import COPIED_ANSWER, COPIED_OTHER


def _computed(both: Group) -> Condition:
    """The group's condition whose donors computed another answer."""
    (interchange,) = (condition for condition in both.conditions if condition.name == "interchange")
    return interchange


def _copied(
    name: str,
    positions: np.ndarray,
    answers: np.ndarray,
    donor: str,
    copies: pd.DataFrame,
    rng: np.random.Generator,
) -> Condition:
    """The condition whose donors copy `answers`, a token id for each target; targets without one are left out."""
    copied, rows = copies_of(answers, copies, rng)
    return Condition(name, positions[copied], donor, rows["prompt"].tolist(), rows["answer_token"].to_numpy())


def copies_of(
    answers: np.ndarray, copies: pd.DataFrame, rng: np.random.Generator
) -> tuple[np.ndarray, pd.DataFrame]:
    """The positions in `answers` (token ids) of those that a prompt copies, and a random such prompt for each."""
    by_answer = copies.groupby("answer_token").indices
    copied = np.flatnonzero(np.isin(answers, copies["answer_token"]))
    return copied, copies.iloc[[int(rng.choice(by_answer[token])) for token in answers[copied].tolist()]]


def with_copies(plans: Plans, copies: Mapping[str, pd.DataFrame], seed: int, operator: str) -> Plans:
    """The plans with two more conditions in each direction, whose donors copy.

    In the first, targets are wrong and donors have their right answer. In the second, both formats are right, and
    donors have the answer of the donor in `interchange`: they differ only in whether it was computed.

    Args:
        copies: prompts from `right_copies`, by format; a direction is unchanged if the donor's format has none.
        operator: name of the operator, for the seeded choices.
    """
    extended = {}
    for (donor, target), groups in plans.items():
        if donor in copies:
            groups = _with_copies(groups, donor, copies[donor], generator(seed, "copied", operator, donor, target))
        extended[donor, target] = groups
    return extended


def _with_copies(groups: list[Group], donor: str, copies: pd.DataFrame, rng: np.random.Generator) -> list[Group]:
    failed, both, reverse = groups
    computed = _computed(both)
    answers = failed.pairs["answer_token"].to_numpy()
    equal = _copied(COPIED_ANSWER, np.arange(len(answers)), answers, donor, copies, rng)
    other = _copied(COPIED_OTHER, computed.targets, computed.donor_tokens, donor, copies, rng)
    return [
        replace(failed, conditions=[*failed.conditions, equal]),
        replace(both, conditions=[*both.conditions, other]),
        reverse,
    ]


def answers_of_donors(plans: Plans, donor: str) -> np.ndarray:
    """The distinct answers, as token ids, that copying donors of a format must have."""
    tokens = [np.empty(0, dtype=np.int64)]
    for (name, _), (failed, both, _) in plans.items():
        if name == donor:
            tokens += [failed.pairs["answer_token"].to_numpy(), _computed(both).donor_tokens]
    return np.unique(np.concatenate(tokens))


def tasks_in(form: str, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Task, str]]:
    """The tasks that have a template in the format `form`, each with it; `tasks` are as in a configuration."""
    return {
        name: (task_of(task, {}), task["templates"][form])
        for name, task in tasks.items()
        if form in task["templates"]
    }


def right_copies(
    run: Run, tasks: Mapping[str, tuple[Task, str]], answers: np.ndarray, most: int, seed: int
) -> pd.DataFrame:
    """Prompts of a format's copying tasks that the unmodified model answers correctly.

    Args:
        tasks: tasks from `tasks_in`.
        answers: token ids of answers; prompts with other answers are not run.
        most: largest number of prompts that are run, evenly over answers as far as they have prompts.
        seed: seed of the choice of prompts.

    Returns:
        Columns prompt and answer_token.
    """
    parts = []
    for name, (task, template) in tasks.items():
        problems = problems_for(task, template)
        problems = problems.iloc[generator(seed, "copied", name).permutation(len(problems))]
        problems = problems[stated(task, problems).groupby("target").cumcount() < most]
        prompts, tokens = prepare(task, run.tokenizer, template, problems, f"the task {name}")
        parts.append(pd.DataFrame({"prompt": prompts, "answer_token": tokens}))
    table = pd.concat(parts).drop_duplicates("prompt")
    table = table[table["answer_token"].isin(answers)].reset_index(drop=True)
    order = table.groupby("answer_token").cumcount().sort_values(kind="stable").index
    table = table.loc[order[:most]]
    if len(table):
        right = torch.tensor(table["answer_token"].tolist(), device=run.model.device)
        table = table[answer(run, run.tokens(table["prompt"].tolist()), right).correct.cpu().numpy()]
    return table
