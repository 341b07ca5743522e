"""What an operator asks: the problems, the prompts that state them, and the token that answers each.

The token is the *target*: all later stages know a problem by its prompt and its target. Whole-number arithmetic
takes the answer itself, which must be one token. A table takes the first token of its answer.
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
from form_invariance.problems.prompts import PromptTokenizer, check_prompts, check_template, fields_of
from form_invariance.problems.task_tables import NO_OPERAND, read_task_table


@dataclass(frozen=True)
class Arithmetic:
    """Whole-number arithmetic: an expression of two operands, such as ``a // b``."""

    expression: str
    limits: OperandRange


@dataclass(frozen=True)
class TableTask:
    """A table of problems, and the column of its answers."""

    path: Path
    answer: str


Task = Arithmetic | TableTask


def pool(task: Task) -> pd.DataFrame:
    """All problems: columns a, b, answer, and of a table target and fields (`read_task_table`)."""
    if isinstance(task, TableTask):
        return read_task_table(task.path, task.answer)
    return operand_pool(task.expression, task.limits)


def stated(problems: pd.DataFrame) -> pd.DataFrame:
    """Problems with target (text of the answer) and fields (JSON), which those of a table have already."""
    if "target" in problems:
        return problems
    pairs = zip(problems["a"].tolist(), problems["b"].tolist(), strict=True)
    fields = [json.dumps({"a": str(a), "b": str(b)}) for a, b in pairs]
    return problems.assign(target=problems["answer"].astype(str), fields=fields)


def prompts_of(template: str, problems: pd.DataFrame) -> list[str]:
    """The prompt of each problem, from its column fields."""
    return [fill(template, fields) for fields in map(json.loads, problems["fields"])]


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
    if isinstance(task, Arithmetic):
        check_template(tokenizer, template, where, task.limits)
    else:
        check_fields_of(task, template, where)
        problems = pool(task)
        first_tokens(tokenizer, prompts_of(template, problems), problems["target"], where)


def targets(
    task: Task, tokenizer: PromptTokenizer, template: str, problems: pd.DataFrame, where: str
) -> tuple[list[str], np.ndarray]:
    """The prompts of problems, and their targets' token ids, int64, (P,).

    Args:
        problems: rows of `pool`, with the columns of `stated`.

    Raises:
        UserError: the template, or a prompt, breaks a rule.
    """
    prompts = prompts_of(template, problems)
    if isinstance(task, Arithmetic):
        places = check_template(tokenizer, template, where, task.limits)
        check_prompts(tokenizer, prompts, problems, places, where)
    else:
        check_fields_of(task, template, where)
    return prompts, target_tokens(tokenizer, prompts, problems, where)


def target_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], problems: pd.DataFrame, where: str
) -> np.ndarray:
    """The targets' token ids of one operator's problems in one template, int64, (P,).

    Args:
        problems: columns b, answer, target.
    """
    if (problems["b"] == NO_OPERAND).all():
        return first_tokens(tokenizer, prompts, problems["target"], where)
    return tokenizer.number_tokens(problems["answer"].to_numpy())


def first_tokens(
    tokenizer: PromptTokenizer, prompts: Sequence[str], answers: Iterable[str], where: str
) -> np.ndarray:
    """The first token of each answer after its prompt, int64, (P,).

    The answers follow directly, or after a space: all of one template alike. After a letter, a digit or a
    punctuation mark that ends a word a space is tried first; after white space none is; elsewhere none is tried
    first. An answer fits if the prompt's tokens stay what they are and the next one has some of the answer's text.

    Raises:
        UserError: neither fits; it names a prompt.
    """
    texts = list(answers)
    before = tokenizer.encode_each(prompts)
    spaced = all(prompt[-1:].isalnum() or prompt[-1:] in ".,;:!?)" for prompt in prompts)
    blank = any(prompt[-1:].isspace() for prompt in prompts)
    for space in ("",) if blank else (" ", "") if spaced else ("", " "):
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
