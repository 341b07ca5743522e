"""What scout asks a model: operators on numbers, as its tokenizer allows, or tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.task_tables import first_fields
from form_invariance.problems.tasks import Arithmetic, TableTask, Task, check_wording, pool, stated
from form_invariance.randomness import generator
from form_invariance.scouting.wordings import of_arithmetic, of_table
from form_invariance.stages.heuristics.names import EXPRESSIONS

Wordings = Mapping[str, Sequence[str]]
"""Templates by format."""

EXAMPLES = 4
"""Worked examples of a question, at most."""
PROBLEMS = 24
"""Problems on which a template is tried."""
_WHOLE = (999, 99, 19)
"""Largest operands that are tried where numbers are whole tokens."""
_DIGITS = (3, 2)
"""Digits of operands and answers that are tried where numbers are split."""
_FEWEST = 200
"""Problems that an operator on numbers must have."""


@dataclass(frozen=True)
class Question:
    """An operator, and the wordings in which it is tried.

    Attributes:
        task: what is asked; where digits are asked, the last one, whose prompt asks all.
        digits: how many digits the answers have; 0 where the answer is asked as a whole.
    """

    operator: str
    task: Task
    wordings: Wordings
    digits: int = 0


def largest_number(tokenizer: PromptTokenizer) -> int:
    """The largest number up to 999 such that all numbers from 0 to it are one token; -1 if 0 is not."""
    encoded = tokenizer.encode_each([str(number) for number in range(1000)])
    return next((number for number, ids in enumerate(encoded) if len(ids) != 1), 1000) - 1


def arithmetic(tokenizer: PromptTokenizer) -> dict[str, Sequence[Question]]:
    """The questions on numbers, by their operands in words, the largest operands first."""
    largest = largest_number(tokenizer)
    levels: dict[str, Sequence[Question]] = {}
    if largest > _WHOLE[-1]:
        for top in sorted({largest, *(one for one in _WHOLE if one < largest)}, reverse=True):
            low = 6 if top > _WHOLE[-1] else 1
            limits = OperandRange(low, top, min(low, 3), min(largest, 5 * top))
            levels[f"numbers up to {top}"] = _questions(limits, EXPRESSIONS, 0)
        return levels
    for digits in _DIGITS:
        limits = OperandRange(*[10 ** (digits - 1), 10**digits - 1] * 2)
        levels[f"numbers of {digits} digits"] = _questions(limits, ("addition", "subtraction"), digits)
    return levels


def _questions(limits: OperandRange, operators: Iterable[str], digits: int) -> list[Question]:
    asked = digits - 1 if digits else None
    found = [
        Question(name, Arithmetic(EXPRESSIONS[name], limits, asked), of_arithmetic(name), digits)
        for name in operators
    ]
    return [one for one in found if len(pool(one.task)) >= _FEWEST]


def of_file(path: Path) -> Question:
    """The question of a table. Its answers are in the column `answer`, or in the last one.

    Raises:
        UserError: the file is no table of problems.
    """
    columns = list(first_fields(path))
    answer = "answer" if "answer" in columns else columns[-1]
    operator = re.sub(r"[^A-Za-z0-9_.-]", "_", path.stem).lstrip("_.-")
    relation = re.sub(r"[\W_]+", " ", operator if answer == "answer" else answer).strip()
    task = TableTask(path, answer)
    if len(pool(task)) < EXAMPLES + PROBLEMS:
        raise UserError(
            f"the table {path} has {len(pool(task))} rows; scout needs {EXAMPLES + PROBLEMS} at least, so add rows"
        )
    return Question(operator or "table", task, of_table(relation, [one for one in columns if one != answer]))


def of_files(paths: Sequence[Path]) -> list[Question]:
    """The questions of some tables.

    Raises:
        UserError: a file is no table of problems, or two have one name.
    """
    found = [of_file(path) for path in paths]
    names = [one.operator for one in found]
    if again := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise UserError(f"--table: two files give the operator name {again!r}; rename one")
    return found


def levels(
    tokenizer: PromptTokenizer, tables: Sequence[Question], templates: Mapping[tuple[str, str], str]
) -> dict[str, Sequence[Question]]:
    """The questions by what their problems are, the hardest first: the tables, or else arithmetic.

    Args:
        templates: the user's, by (format, operator), in place of the wordings of that format.

    Raises:
        UserError: a template is of no question, or has other fields.
    """
    found = {"the tables": tables} if tables else arithmetic(tokenizer)
    tasks = {one.operator: one.task for own in found.values() for one in own}
    for (name, operator), text in templates.items():
        where = f"--template {name}/{operator}"
        if operator not in tasks:
            raise UserError(f"{where}: {operator!r} is not among the operators {', '.join(tasks)}")
        check_wording(tasks[operator], text, where)
    return {level: [_with_templates(one, templates) for one in own] for level, own in found.items()}


def _with_templates(question: Question, templates: Mapping[tuple[str, str], str]) -> Question:
    own = {name: (text,) for (name, operator), text in templates.items() if operator == question.operator}
    return replace(question, wordings={**question.wordings, **own})


def draw(question: Question, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Worked examples with answers that differ, and other problems, at random.

    Returns:
        `EXAMPLES` and `PROBLEMS` rows of the task's pool, as `stated`. The examples have the column text, the
        answer.
    """
    every = pool(question.task)
    rng = generator(seed, "scout", question.operator)
    rows = every.iloc[rng.permutation(len(every))]
    examples = rows.drop_duplicates("answer").head(EXAMPLES)
    problems = stated(question.task, rows.drop(examples.index).head(PROBLEMS)).reset_index(drop=True)
    examples = stated(question.task, examples)
    if isinstance(question.task, TableTask):
        return examples.assign(text=examples["target"]), problems
    return examples.assign(text=examples["answer"].astype(str)), problems
