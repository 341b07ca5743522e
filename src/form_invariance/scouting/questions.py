"""What scout asks a model: operators on numbers, as its tokenizer allows, or tables."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.task_tables import first_fields, odd_spaces
from form_invariance.problems.tasks import Arithmetic, TableTask, Task, check_wording, pool, stated
from form_invariance.problems.templates import OPERANDS, fields_of
from form_invariance.randomness import generator
from form_invariance.scouting.wordings import ANSWER, halves, of_arithmetic, of_table
from form_invariance.stages.heuristics.names import EXPRESSIONS
from form_invariance.workflow.config_schema import as_name

Wordings = Mapping[str, Sequence[str]]
"""Wordings by format."""

Templates = Mapping[tuple[str, str], Sequence[str]]
"""The user's wordings by (format, operator); the operator "" means all that have no wordings of their own."""

EXAMPLES = (0, 1, 2, 4)
"""Numbers of worked examples that are tried."""
MOST_EXAMPLES = 16
"""The largest number that can be asked for."""
FIRST, PROBLEMS = 8, 24
"""A template is tried on `FIRST` problems; if some are answered right, on `PROBLEMS` in all."""
_WHOLE = (999, 99, 19)
"""Largest operands that are tried where numbers are whole tokens."""
_DIGITS = (3, 2)
"""Digits of operands and answers that are tried where numbers are split."""
_FEWEST = 200
"""Problems that an operator on numbers must have."""


@dataclass(frozen=True)
class AskedQuestion:
    """An operator, and the wordings in which it is tried.

    Attributes:
        task: what is asked; where digits are asked, the last digit, whose prompt contains those before it.
        digits: number of digits of the answers; 0 if the answer is asked as a whole.
    """

    operator: str
    task: Task
    wordings: Wordings
    digits: int = 0


def largest_number(tokenizer: PromptTokenizer) -> int:
    """The largest number up to 999 such that all numbers from 0 to it are one token; -1 if 0 is not."""
    encoded = tokenizer.encode_each([str(number) for number in range(1000)])
    return next((number for number, ids in enumerate(encoded) if len(ids) != 1), 1000) - 1


def arithmetic(tokenizer: PromptTokenizer) -> dict[str, Sequence[AskedQuestion]]:
    """The questions on numbers by a description of their operands, the largest operands first."""
    largest = largest_number(tokenizer)
    levels: dict[str, Sequence[AskedQuestion]] = {}
    if largest > _WHOLE[-1]:
        for top in sorted({largest, *(limit for limit in _WHOLE if limit < largest)}, reverse=True):
            low = 6 if top > _WHOLE[-1] else 1
            limits = OperandRange(low, top, min(low, 3), min(largest, 5 * top))
            levels[f"numbers up to {top}"] = _questions(limits, EXPRESSIONS, 0)
        return levels
    for digits in _DIGITS:
        limits = OperandRange(*[10 ** (digits - 1), 10**digits - 1] * 2)
        levels[f"numbers of {digits} digits"] = _questions(limits, ("addition", "subtraction"), digits)
    return levels


def _questions(limits: OperandRange, operators: Iterable[str], digits: int) -> list[AskedQuestion]:
    digit = digits - 1 if digits else None
    questions = [
        AskedQuestion(name, Arithmetic(EXPRESSIONS[name], limits, digit), of_arithmetic(name), digits)
        for name in operators
    ]
    return [question for question in questions if len(pool(question.task)) >= _FEWEST]


def unasked(level: Sequence[AskedQuestion]) -> list[str]:
    """Why some operators on numbers are not among a level's questions, in a sentence each."""
    if isinstance(level[0].task, TableTask):
        return []
    reason = "it is not asked digit by digit" if level[0].digits else f"it has fewer than {_FEWEST} problems"
    return [
        f"operator {name}: {reason}"
        for name in EXPRESSIONS
        if name not in [question.operator for question in level]
    ]


def of_file(path: Path, examples: int = EXAMPLES[-1]) -> AskedQuestion:
    """The question of a table, for up to `examples` worked examples. Answers: `answer`, or the last column."""
    columns = list(first_fields(path))
    for sentence in odd_spaces(path):
        print(f"warning: {sentence}", file=sys.stderr)
    answer = "answer" if "answer" in columns else columns[-1]
    relation = re.sub(r"[\W_]+", " ", answer).strip()
    task = TableTask(path, answer)
    examples = max(examples, EXAMPLES[-1])
    if len(pool(task)) < examples + PROBLEMS:
        raise UserError(
            f"the table {path} has {len(pool(task))} rows; scout needs {examples + PROBLEMS} at least, {examples} "
            f"for worked examples and {PROBLEMS} problems, so add rows"
        )
    if (usable := len(_examples_of(task, pool(task)))) < examples:
        raise UserError(
            f"the table {path}: scout needs {examples} rows for worked examples, but only {usable} contain no "
            "words in braces, which a template takes for fields; add rows"
        )
    wordings = of_table(relation, [name for name in columns if name != answer])
    return AskedQuestion(as_name(path.stem, "table"), task, wordings)


def of_files(paths: Sequence[Path], examples: int = EXAMPLES[-1]) -> list[AskedQuestion]:
    """The question of each table, as `of_file`."""
    questions = [of_file(path, examples) for path in paths]
    names = [question.operator for question in questions]
    if again := next((name for position, name in enumerate(names) if name in names[:position]), None):
        raise UserError(f"--table: two files give the operator name {again!r}; rename one")
    return questions


def levels(
    tokenizer: PromptTokenizer, tables: Sequence[AskedQuestion], templates: Templates
) -> dict[str, Sequence[AskedQuestion]]:
    """The questions by a description of their problems, the hardest first: the tables, or else arithmetic.

    `templates` replace the wordings of their format.
    """
    by_level = {"the tables": tables} if tables else arithmetic(tokenizer)
    tasks = {question.operator: question.task for questions in by_level.values() for question in questions}
    general = [(name, texts) for (name, operator), texts in templates.items() if not operator]
    by_cell = {(name, operator): texts for name, texts in general for operator in tasks}
    by_cell |= {cell: texts for cell, texts in templates.items() if cell[1]}
    for (name, operator), texts in by_cell.items():
        where = f"--template {name}/{operator}"
        if operator not in tasks:
            raise UserError(f"{where}: {operator!r} is not among the operators {', '.join(tasks)}")
        for text in texts:
            _check_wording(tasks[operator], text, where)
    return {
        level: [_with_templates(question, by_cell) for question in of_level]
        for level, of_level in by_level.items()
    }


def _check_wording(task: Task, wording: str, where: str) -> None:
    """Check the fields of a wording. All must come before `ANSWER`, where the prompt ends."""
    template, after = halves(wording)
    field_names = first_fields(task.path) if isinstance(task, TableTask) else OPERANDS
    if fields := fields_of(after, [*field_names]):
        raise UserError(
            f"{where}: {wording!r} has {{{fields[0]}}} after {ANSWER}; put all fields before it, because the "
            "prompt ends where the answer begins"
        )
    check_wording(task, template, where)


def _with_templates(question: AskedQuestion, templates: Templates) -> AskedQuestion:
    new_wordings = {name: texts for (name, operator), texts in templates.items() if operator == question.operator}
    return replace(question, wordings={**question.wordings, **new_wordings})


def _examples_of(task: Task, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that can be worked examples: a template would take a ``{word}`` in their values for a field."""
    if not isinstance(task, TableTask):
        return rows
    values = [json.loads(fields) for fields in rows["fields"]]
    texts = [" ".join([*row.values(), text]) for row, text in zip(values, rows["target"], strict=True)]
    return rows[[not fields_of(text, [*values[0]]) for text in texts]]


def draw(question: AskedQuestion, seed: int, examples: int = EXAMPLES[-1]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Worked examples with answers as different as possible, and other problems, at random.

    Returns:
        At least `EXAMPLES[-1]` examples (`_examples_of` the task) and `PROBLEMS` problems: rows of the task's
        pool, as `stated`. The examples have the column text, the answer. Their first rows do not depend on
        `examples`.
    """
    pool_rows = pool(question.task)
    rng = generator(seed, "scout", question.operator)
    rows = pool_rows.iloc[rng.permutation(len(pool_rows))]
    again = rows.groupby("answer").cumcount().to_numpy()
    shown = _examples_of(question.task, rows.iloc[np.argsort(again, kind="stable")])
    shown = shown.head(max(examples, EXAMPLES[-1]))
    problems = stated(question.task, rows.drop(shown.index).head(PROBLEMS)).reset_index(drop=True)
    shown = stated(question.task, shown)
    if isinstance(question.task, TableTask):
        return shown.assign(text=shown["target"]), problems
    return shown.assign(text=shown["answer"].astype(str)), problems
