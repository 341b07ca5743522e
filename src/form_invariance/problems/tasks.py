"""What an operator asks: the problems, the prompts that state them, and the token that answers each.

The token is the *target*: all later stages know a problem by its prompt and its target. Whole-number arithmetic
takes the answer itself, which must be one token, or one digit of it, for tokenizers that split numbers into
digits. A table takes the first token of its answer.
"""

import json
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange, evaluate, evenly_spaced, operand_pool
from form_invariance.problems.prompts import (
    PromptTokenizer,
    check_next_token,
    check_prompts,
    check_template,
    encode_prompts,
)
from form_invariance.problems.task_tables import NO_OPERAND, read_task_table
from form_invariance.problems.templates import check_fields, fill


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

    def __post_init__(self) -> None:
        """Refuse an expression that cannot be evaluated, before a template is blamed for it."""
        evaluate(self.expression, np.ones(1, np.int64), np.ones(1, np.int64))


@dataclass(frozen=True)
class TableTask:
    """A table of problems, the column of its answers, and the sha256 of the file that is meant, if known."""

    path: Path
    answer: str
    sha256: str | None = None


Task = Arithmetic | TableTask

WHOLE = -1
"""In place of the number of a digit: the whole answer is asked, or its first token."""
UNKNOWN = -1
"""In place of a carry that is not known."""
_JOINED = "\"'“‘«([{<=/\\_-+*~^$@"
"""Signs that join to the word after them, without a space."""
_BETWEEN = "<=/-+"
"""Signs between two words: if there is a space before them, there is a space after them, too."""


def is_whole(task: Task) -> TypeGuard[Arithmetic]:
    """Whether the whole answer is asked and is a number, which the stages about numbers need."""
    return isinstance(task, Arithmetic) and task.digit is None


def pool(task: Task) -> pd.DataFrame:
    """All problems: columns a, b and answer; for a table target and fields, too (`read_task_table`)."""
    if isinstance(task, TableTask):
        return read_task_table(task.path, task.answer, task.sha256)
    problems = operand_pool(task.expression, task.limits)
    if task.digit is None:
        return problems
    # A minus sign is no digit.
    long = problems["answer"] >= (10**task.digit if task.digit else 0)
    if not long.any():
        largest = problems["answer"].max()
        raise UserError(
            f"digit {task.digit} of '{task.expression}': no answer has that many digits; 0 is the leading digit, "
            f"so the last one of the largest answer, {largest}, is {len(str(largest)) - 1}"
        )
    return problems[long].reset_index(drop=True)


def check_places(task: Task) -> None:
    """Check that the asked digit has the same place in all answers: the ones, or the tens, ..."""
    if isinstance(task, TableTask) or task.digit is None:
        return
    answers = pool(task)["answer"]
    shortest, longest = (len(str(answer)) for answer in (answers.min(), answers.max()))
    if shortest != longest:
        raise UserError(
            f"digit {task.digit} of '{task.expression}' does not have the same place in all answers, which have "
            f"{shortest} to {longest} digits; narrow answer_min and answer_max under operands, for instance to "
            f"{10 ** (longest - 1)} and {10**longest - 1}"
        )


def stated(task: Task, problems: pd.DataFrame) -> pd.DataFrame:
    """Problems with their columns target, fields, digit and carry (`PROBLEM`)."""
    if isinstance(task, TableTask):
        return problems.assign(digit=WHOLE, carry=UNKNOWN)
    pairs = zip(problems["a"].tolist(), problems["b"].tolist(), strict=True)
    fields = [json.dumps({"a": str(a), "b": str(b)}) for a, b in pairs]
    answers = problems["answer"].astype(str)
    if task.digit is None:
        return problems.assign(target=answers, fields=fields, digit=WHOLE, carry=UNKNOWN)
    # The place of the digit, counted from the last one: 10^place is its value.
    carry = carries(task.expression, problems, 10 ** (answers.str.len().to_numpy() - 1 - task.digit))
    return problems.assign(target=answers.str[task.digit], fields=fields, digit=task.digit, carry=carry)


def carries(expression: str, problems: pd.DataFrame, below: np.ndarray | int) -> np.ndarray:
    """The carry into a digit of value `below` in addition, or the borrow in subtraction; `UNKNOWN` in others."""
    kind = "".join(expression.split())
    a, b = (problems[name].to_numpy() for name in ("a", "b"))
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
    return [fill(template, row_fields) + lead for row_fields, lead in zip(fields, leads(problems), strict=True)]


def check_wording(task: Task, template: str, where: str) -> None:
    """Check the fields of a template, and that it gives no two problems of the task the same prompt.

    Otherwise an eval prompt could be a train prompt.
    """
    if isinstance(task, TableTask):
        problems = pool(task)
        check_fields(template, where, list(json.loads(problems["fields"].iloc[0])))
    else:
        check_fields(template, where)
        # A sign between the operands makes prompts distinct; where whole answers are asked, `check_template` does.
        if is_whole(task) or re.search(r"\D", re.split(r"\{[ab]\}", template)[1]):
            return
        problems = pool(task)
    prompts = prompts_of(template, stated(task, problems))
    _check_distinct(task, prompts, prompts, problems, f"{where}: template {template!r}")


def _check_distinct(
    task: Task, prompts: Sequence[str], seen: Sequence[Hashable], problems: pd.DataFrame, where: str
) -> None:
    """Check that no two prompts are `seen` as the same: by their texts or by their tokens."""
    first: dict[Hashable, int] = {}
    for position, prompt_key in enumerate(seen):
        if (before := first.setdefault(prompt_key, position)) == position:
            continue
        pair = problems.iloc[[before, position]]
        if isinstance(task, TableTask):
            named = " and ".join(str(row + 1) for row in pair["a"])
            advice = f"rows {named} of {task.path}; add a field that tells them apart, or remove one"
        else:
            named = " and ".join(f"{a}, {b}" for a, b in zip(pair["a"], pair["b"], strict=True))
            advice = f"a, b = {named}; put a sign between {{a}} and {{b}}"
        raise UserError(f"{where} gives two problems the same prompt, {prompts[position]!r}: {advice}")


def check_task(task: Task, tokenizer: PromptTokenizer, template: str, where: str) -> None:
    """Check a template of a task against a tokenizer, before any prompt is run."""
    if is_whole(task):
        check_template(tokenizer, template, where, task.limits)
    else:
        targets(task, tokenizer, template, stated(task, evenly_spaced(pool(task))), where)


def targets(
    task: Task, tokenizer: PromptTokenizer, template: str, problems: pd.DataFrame, where: str
) -> tuple[list[str], np.ndarray]:
    """The prompts of problems, and their targets' token ids, int64, (P,).

    Args:
        problems: rows of `pool`, with the columns of `stated`.

    Raises:
        UserError: the template, or a prompt, breaks a rule.
    """
    check_wording(task, template, where)
    prompts = prompts_of(template, problems)
    if isinstance(task, TableTask):
        # Some tokenizers encode different texts alike, for instance the two ways to write an accent.
        seen = list(map(tuple, encode_prompts(tokenizer, prompts, where)))
        _check_distinct(task, prompts, seen, problems, f"{where}: {tokenizer.name}")
    if is_whole(task):
        positions = check_template(tokenizer, template, where, task.limits)
        check_prompts(tokenizer, prompts, problems, positions, where)
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
    return check_next_token(tokenizer, prompts, problems["answer"].to_numpy(), where)


def _digit_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], digits: Iterable[str], where: str
) -> np.ndarray:
    """The token of each digit after its prompt, int64, (P,)."""
    texts = [f"{prompt}{digit}" for prompt, digit in zip(prompts, digits, strict=True)]
    tokens = []
    before = encode_prompts(tokenizer, prompts, where)
    for text, prompt_ids, after in zip(texts, before, tokenizer.encode_each(texts), strict=True):
        if after[:-1] != prompt_ids or tokenizer.text(after[-1]) != text[-1]:
            raise UserError(
                f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}, but the digit must be "
                "the next token after the prompt, alone; ask the whole answer if the tokenizer keeps numbers "
                "whole, and end the template in a space if it needs one before a digit"
            )
        tokens.append(after[-1])
    return np.array(tokens, dtype=np.int64)


def first_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], answers: Iterable[str], where: str
) -> np.ndarray:
    """The first token of each answer after its prompt, int64, (P,).

    An answer follows its prompt directly or after a space (`_gaps`), whatever holds for other rows. It fits if the
    prompt's tokens do not change and the next token has some of the answer's text.
    """
    texts = list(answers)
    before = encode_prompts(tokenizer, prompts, where)
    gaps = list(map(_gaps, prompts, texts))
    tokens: dict[int, int] = {}
    misfits: dict[int, str] = {}
    for attempt in range(2):
        rows = [row for row, tried in enumerate(gaps) if row not in tokens and attempt < len(tried)]
        whole = [f"{prompts[row]}{gaps[row][attempt]}{texts[row]}" for row in rows]
        for row, text, ids in zip(rows, whole, tokenizer.encode_each(whole), strict=True):
            size = len(before[row])
            if ids[:size] == before[row] and len(ids) > size and tokenizer.text(ids[size]).strip():
                tokens[row] = ids[size]
            else:
                misfits.setdefault(row, text)
    for row, text in misfits.items():
        if row not in tokens:
            advice = "change or remove this row, or " if tokens else ""
            raise UserError(
                f"{where}: {tokenizer.name} splits {text!r} as {tokenizer.tokens(text)}, so that no token begins "
                f"where the answer begins; {advice}end the template where a word ends, without a space"
            )
    return np.array([tokens[row] for row in range(len(texts))], dtype=np.int64)


def _gaps(prompt: str, answer: str) -> tuple[str, ...]:
    """The gaps that may be between a prompt and its answer, in the order in which they are tried.

    A gap next to white space is empty. If the prompt's last signs occur before, in a worked example, the gap after
    them there is tried first. If not, a space is tried first, unless the last sign joins to the word after it.

    >>> _gaps("[Peru] = Lima, [Chile] =", "Santiago"), _gaps("Peru:Lima, Chile:", "Santiago"), _gaps("(", "x")
    ((' ', ''), ('', ' '), ('', ' '))
    """
    if prompt[-1:].isspace() or answer[:1].isspace():
        return ("",)
    signs = re.search(r"[^\w\s]\W*$", prompt)
    _, shown, after = prompt[: signs.start()].rpartition(signs[0]) if signs else ("", "", "")
    if shown and after.lstrip(" ")[:1].strip():
        joined = not after.startswith(" ")
    else:
        joined = prompt.endswith(tuple(_JOINED)) and not (prompt[-1] in _BETWEEN and prompt[-2:-1].isspace())
    return ("", " ") if joined else (" ", "")
