"""What an operator asks: the problems, the prompts that state them, and the token that answers each.

The token is the *target*: all later stages know a problem by its prompt and its target. Whole-number arithmetic
takes the answer itself, which must be one token, or one digit of it, for tokenizers that split numbers into
digits. A table takes the first token of its answer.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.problems.prompts import (
    PromptTokenizer,
    check_fields,
    check_prompts,
    check_template,
    fields_of,
)
from form_invariance.problems.task_tables import NO_OPERAND, read_task_table


@dataclass(frozen=True)
class Arithmetic:
    """Whole-number arithmetic: an expression of two operands, such as ``a // b``.

    Attributes:
        digit: which digit of the answer is asked, 0 = the leading one; the prompt ends in the digits before it.
            None: the whole answer.
    """

    expression: str
    limits: OperandRange
    digit: int | None = None


@dataclass(frozen=True)
class TableTask:
    """A table of problems, and the column of its answers."""

    path: Path
    answer: str


Task = Arithmetic | TableTask

WHOLE = -1
"""In the place of a digit: the whole answer is asked, or the start of it."""
UNKNOWN = -1
"""In the place of a carry."""
_JOINED = "\"'“‘«([{<=/\\_-+*~^$@"
"""Signs that join to the word after them, without a space."""
_TRIED = 500
"""Prompts that a template is checked with before the model runs; a job checks all of its own."""


def is_whole(task: Task) -> bool:
    """Whether the whole answer is asked, a number: the stages about numbers need this."""
    return isinstance(task, Arithmetic) and task.digit is None


def pool(task: Task) -> pd.DataFrame:
    """All problems: columns a, b, answer, and of a table target and fields (`read_task_table`).

    Raises:
        UserError: there is none.
    """
    if isinstance(task, TableTask):
        return read_task_table(task.path, task.answer)
    problems = operand_pool(task.expression, task.limits)
    if task.digit is None:
        return problems
    # A minus sign is no digit.
    long = (problems["answer"] >= 10**task.digit) if task.digit else (problems["answer"] >= 0)
    if not long.any():
        largest = problems["answer"].max()
        raise UserError(
            f"digit {task.digit} of '{task.expression}': no answer has so many digits; 0 is the leading digit, so "
            f"the last one of the largest answer, {largest}, is {len(str(largest)) - 1}"
        )
    return problems[long].reset_index(drop=True)


def stated(task: Task, problems: pd.DataFrame) -> pd.DataFrame:
    """Problems with their columns target, fields, digit and carry (`PROBLEM`)."""
    if isinstance(task, TableTask):
        return problems.assign(digit=WHOLE, carry=UNKNOWN)
    pairs = zip(problems["a"].tolist(), problems["b"].tolist(), strict=True)
    fields = [json.dumps({"a": str(a), "b": str(b)}) for a, b in pairs]
    answers = problems["answer"].astype(str)
    if task.digit is None:
        return problems.assign(target=answers, fields=fields, digit=WHOLE, carry=UNKNOWN)
    return problems.assign(
        target=answers.str[task.digit], fields=fields, digit=task.digit, carry=_carries(task, problems)
    )


def _carries(task: Arithmetic, problems: pd.DataFrame) -> np.ndarray:
    """The carry into each problem's digit in addition, or the borrow in subtraction; `UNKNOWN` in others."""
    assert task.digit is not None
    kind = "".join(task.expression.split())
    a, b, answer = (problems[name].to_numpy() for name in ("a", "b", "answer"))
    # The place of the digit, counted from the last one: 10^place is its value.
    below = 10 ** (np.array([len(str(one)) for one in answer]) - 1 - task.digit)
    if kind == "a+b":
        return np.asarray((a % below + b % below) // below)
    if kind == "a-b":
        return np.asarray(a % below < b % below).astype(np.int64)
    return np.full(len(problems), UNKNOWN)


def leads(problems: pd.DataFrame) -> list[str]:
    """The digits of each answer before the target, in which the prompt ends; "" without any."""
    pairs = zip(problems["answer"].tolist(), problems["digit"].tolist(), strict=True)
    return [str(answer)[:digit] if digit > 0 else "" for answer, digit in pairs]


def prompts_of(template: str, problems: pd.DataFrame) -> list[str]:
    """The prompt of each problem, from its columns fields, answer and digit."""
    fields = map(json.loads, problems["fields"])
    return [fill(template, own) + lead for own, lead in zip(fields, leads(problems), strict=True)]


def fill(template: str, fields: dict[str, str]) -> str:
    """Put the text of every field into a template."""
    names = "|".join(map(re.escape, fields))
    return re.sub(rf"\{{({names})\}}", lambda found: fields[found[1]], template)


def field_names(task: Task) -> list[str]:
    """The fields that a template may have."""
    if isinstance(task, Arithmetic):
        return ["a", "b"]
    return list(json.loads(pool(task)["fields"].iloc[0]))


def check_fields_of(task: Task, template: str, where: str) -> None:
    """Check that a template has no field but the task's, and at least one.

    Raises:
        UserError: it names the template by `where`.
    """
    known, found = field_names(task), fields_of(template)
    if not found or not set(found) <= set(known):
        columns = ", ".join(f"{{{name}}}" for name in known)
        raise UserError(
            f"{where}: template {template!r} must have at least one of the table's fields, {columns}, and no "
            f"other; it has {found or 'none'}"
        )


def check_task(task: Task, tokenizer: PromptTokenizer, template: str, where: str) -> None:
    """Check a template of a task against a tokenizer, before any prompt is run.

    Raises:
        UserError: with the template and the rule that it breaks.
    """
    if isinstance(task, Arithmetic) and task.digit is None:
        check_template(tokenizer, template, where, task.limits)
        return
    problems = pool(task)
    # The pairs of all operands are too many, so that evenly spaced ones are tried.
    places = np.linspace(0, len(problems) - 1, min(len(problems), _TRIED)).astype(int)
    targets(task, tokenizer, template, stated(task, problems.iloc[places]), where)


def targets(
    task: Task, tokenizer: PromptTokenizer, template: str, problems: pd.DataFrame, where: str
) -> tuple[list[str], np.ndarray]:
    """The prompts of problems, and their targets' token ids, int64, (P,).

    Args:
        problems: rows of `pool`, with the columns of `stated`.

    Raises:
        UserError: the template, or a prompt, breaks a rule.
    """
    if isinstance(task, TableTask):
        check_fields_of(task, template, where)
    else:
        check_fields(template, where)
    prompts = prompts_of(template, problems)
    if isinstance(task, Arithmetic) and task.digit is None:
        places = check_template(tokenizer, template, where, task.limits)
        check_prompts(tokenizer, prompts, problems, places, where)
    return prompts, target_tokens(tokenizer, prompts, problems, where)


def target_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], problems: pd.DataFrame, where: str
) -> np.ndarray:
    """The targets' token ids of one operator's problems in one template, int64, (P,).

    Args:
        problems: columns b, answer, target, digit.
    """
    if (problems["b"] == NO_OPERAND).all():
        return first_tokens(tokenizer, prompts, problems["target"], where)
    if (problems["digit"] != WHOLE).all():
        return _digit_tokens(tokenizer, prompts, problems["target"], where)
    return tokenizer.number_tokens(problems["answer"].to_numpy())


def _digit_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], digits: Iterable[str], where: str
) -> np.ndarray:
    """The token of each digit after its prompt, int64, (P,).

    Raises:
        UserError: it is not the next token, or not a token of its own.
    """
    texts = [f"{prompt}{digit}" for prompt, digit in zip(prompts, digits, strict=True)]
    found = []
    for text, own, after in zip(texts, tokenizer.encode_each(prompts), tokenizer.encode_each(texts), strict=True):
        if after[:-1] != own or tokenizer.text(after[-1]) != text[-1]:
            raise UserError(
                f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}, but the digit must be "
                "the next token after the prompt, alone; ask the whole answer if the tokenizer keeps numbers "
                "whole, and end the template in a space if it needs one before a digit"
            )
        found.append(after[-1])
    return np.array(found, dtype=np.int64)


def first_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], answers: Iterable[str], where: str
) -> np.ndarray:
    """The first token of each answer after its prompt, int64, (P,).

    The answers follow directly, or after a space: all of one template alike. A space is tried first, but not after
    one of `_JOINED`, and never after white space. An answer fits if the prompt's tokens stay what they are and the
    next one has some of the answer's text.

    Raises:
        UserError: neither fits; it names a prompt.
    """
    texts = list(answers)
    before = tokenizer.encode_each(prompts)
    ends = "".join(prompt[-1:] for prompt in prompts)
    joined = any(end in _JOINED for end in ends)
    for space in ("",) if any(map(str.isspace, ends)) else ("", " ") if joined else (" ", ""):
        whole = tokenizer.encode_each([f"{p}{space}{text}" for p, text in zip(prompts, texts, strict=True)])
        fits = [
            after[: len(own)] == own and len(after) > len(own) and bool(tokenizer.text(after[len(own)]).strip())
            for own, after in zip(before, whole, strict=True)
        ]
        if all(fits):
            return np.array([after[len(own)] for own, after in zip(before, whole, strict=True)], dtype=np.int64)
        misfit = fits.index(False)
    text = prompts[misfit] + texts[misfit]
    raise UserError(
        f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}, so that no token begins where "
        "the answer begins; end the template where a word ends, without a space"
    )
