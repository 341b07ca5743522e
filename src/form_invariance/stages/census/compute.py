"""Census: what the model answers to a sample of the operand pool (method, section 2).

Each problem is put into the format's template. An answer is right if its token is the most probable next one of
the whole vocabulary. Rates are over a uniform sample of the problems.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.readout import look_up
from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.prefixes import run_prompts
from form_invariance.problems.operands import sample_pairs
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, Task, pool, stated, targets

PER_ANSWER = 2
"""The fewest pairs of every answer, uniform sample included, so that the dataset can have all answers."""


def _answers(z: Tensor, answer_tokens: Tensor, what: str) -> Iterator[tuple[str, np.ndarray]]:
    """Columns of the census from logits z (B, V), named `what` in messages, and the answers' token ids (B,)."""
    answer, flags = z.gather(1, answer_tokens[:, None]), torch.empty_like(z)
    # Float32 counts a vocabulary exactly, and is summed several times faster than bool.
    above = torch.gt(z, answer, out=flags).sum(1).long()
    for row in (torch.ge(z, answer, out=flags).sum(1) > above + 1).nonzero()[:, 0].tolist():
        above[row] += (z[row, : answer_tokens[row]] == answer[row]).sum()
    logit, _, mean, probability, _, predicted = look_up(z, answer_tokens, what)
    columns = {
        "predicted_token": predicted,
        "correct": predicted == answer_tokens,
        "probability": probability,
        "logit": logit - mean,
        "rank": above + 1,
    }
    for name, values in columns.items():
        yield name, values.cpu().numpy()


@torch.no_grad()
def ask(
    model: Decoder, tokenizer: PromptTokenizer, prompts: Sequence[str], answers: np.ndarray
) -> dict[str, np.ndarray]:
    """What the model answers to prompts, with progress.

    Args:
        answers: token id of the right answer to each prompt, (P,), or of what follows each of its last n tokens,
            (P, n).

    Returns:
        The census table's columns predicted_token, correct, probability, logit and rank, each of the shape of
        `answers`.

    Raises:
        UserError: the model's logits are not finite.
    """
    answer_tokens = torch.tensor(answers).view(len(prompts), -1)
    columns: dict[str, np.ndarray] = {}
    for rows, x in run_prompts(model, tokenizer.encode_batch(prompts), last=answer_tokens.shape[1]):
        what = f"the model's logits for {prompts[rows[0]]!r} and the like"
        right = answer_tokens[rows].to(model.device)
        for position in range(answer_tokens.shape[1]):
            for name, values in _answers(logits(model, x[:, position]), right[:, position], what):
                columns.setdefault(name, np.empty(answer_tokens.shape, values.dtype))[rows, position] = values
    return {name: values.reshape(answers.shape) for name, values in columns.items()}


def ask_every_digit(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    where: str,
    task: Arithmetic,
    problems: pd.DataFrame,
) -> dict[str, np.ndarray]:
    """The columns of `ask` for every digit of the answers, the leading one first, each (P, digits).

    The prompt of an answer's last digit ends in the digits before it, so one pass over it asks all digits.

    Args:
        problems: P problems whose answers have equally many digits.
    """
    by_digit = [
        targets(of_digit, tokenizer, template, stated(of_digit, problems), where)
        for of_digit in (replace(task, digit=digit) for digit in range(len(str(problems["answer"].iloc[0]))))
    ]
    return ask(model, tokenizer, by_digit[-1][0], np.stack([tokens for _, tokens in by_digit], axis=1))


def _ask_digits(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    where: str,
    task: Arithmetic,
    problems: pd.DataFrame,
) -> dict[str, np.ndarray]:
    """The columns of `ask` for the digit that a task asks, and whole_correct."""
    assert task.digit is not None
    columns: dict[str, np.ndarray] = {}
    for rows in problems.groupby(problems["answer"].astype(str).str.len()).indices.values():
        by_digit = ask_every_digit(model, tokenizer, template, where, task, problems.iloc[rows])
        digit_columns = {name: values[:, task.digit] for name, values in by_digit.items()}
        for name, values in {**digit_columns, "whole_correct": by_digit["correct"].all(1)}.items():
            columns.setdefault(name, np.empty(len(problems), values.dtype))[rows] = values
    return columns


def take_census(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    operator: str,
    task: Task,
    size: int | None,
    seed: int,
) -> pd.DataFrame:
    """Run the model on a sample of the pool.

    Args:
        template: with the task's fields; checked against the tokenizer first.
        operator: the operator's name, for messages and for the seeded sample, which is the same for every model
            and format.
        size: problems in the uniform sample; None takes the whole pool.

    Returns:
        The census table.

    Raises:
        UserError: the template or a prompt breaks a rule, the pool is empty, or the model's logits are not finite.
    """
    where = f"template of {operator}"
    problems = stated(task, sample_pairs(pool(task), size, PER_ANSWER, seed, operator))
    prompts, answer_tokens = targets(task, tokenizer, template, problems, where)
    if isinstance(task, Arithmetic) and task.digit is not None:
        columns = _ask_digits(model, tokenizer, template, where, task, problems)
    else:
        columns = ask(model, tokenizer, prompts, answer_tokens)
        columns["whole_correct"] = columns["correct"]
    table = problems.assign(prompt=prompts, answer_token=answer_tokens, **columns)
    texts = {token: tokenizer.text(token) for token in table["predicted_token"].unique().tolist()}
    return table.assign(predicted=table["predicted_token"].map(texts))
