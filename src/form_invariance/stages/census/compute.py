"""Census: what the model answers to a sample of the operand pool (method, section 2).

Each problem is put into the format's template. An answer is right if its token is the most probable next one of
the whole vocabulary. Rates are over a uniform sample of the problems.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.batches import by_length
from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.prefixes import run_prompts
from form_invariance.model.readout import look_up
from form_invariance.problems.operands import sample_pairs
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import TableTask, Task, pool, stated, targets

PER_ANSWER = 2
"""Pairs of every answer that are added to the uniform sample, so that the dataset can reach all answers."""


def _answers(z: Tensor, wanted: Tensor, what: str) -> Iterator[tuple[str, np.ndarray]]:
    """Columns of the census from logits z (B, V), named `what` in messages, and the answers' token ids (B,)."""
    logit, _, mean, probability, predicted = look_up(z, wanted, what)
    answer, flags = logit[:, None].to(z.dtype), torch.empty_like(z)
    # Float32 counts a vocabulary exactly, and is summed several times faster than bool.
    above = torch.gt(z, answer, out=flags).sum(1).long()
    for row in (torch.ge(z, answer, out=flags).sum(1) > above + 1).nonzero()[:, 0].tolist():
        above[row] += (z[row, : wanted[row]] == answer[row]).sum()
    columns = {
        "predicted_token": predicted,
        "correct": predicted == wanted,
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
        answers: token ids of the right answers, (P,).

    Returns:
        The census table's columns predicted_token, correct, probability, logit and rank, (P,) each.

    Raises:
        UserError: the model's logits are not finite.
    """
    tokens, wanted = torch.from_numpy(tokenizer.encode_batch(prompts)), torch.tensor(answers)
    columns: dict[str, np.ndarray] = {}
    for rows, group in by_length(tokens, len(tokens)):
        for own, x in run_prompts(model, group.numpy()):
            asked = rows[own].numpy()
            what = f"the model's logits for {prompts[asked[0]]!r} and the like"
            for name, values in _answers(logits(model, x), wanted[asked].to(model.device), what):
                columns.setdefault(name, np.empty(len(prompts), values.dtype))[asked] = values
    return columns


def _whole_right(
    model: Decoder,
    tokenizer: PromptTokenizer,
    template: str,
    operator: str,
    task: Task,
    problems: pd.DataFrame,
    right: np.ndarray,
) -> np.ndarray:
    """Whether every digit of an answer is right, each after those before it, (P,); `right` without a digit."""
    if isinstance(task, TableTask) or task.digit is None:
        return right
    whole, lengths = right.copy(), problems["answer"].astype(str).str.len().to_numpy()
    for digit in set(range(lengths.max())) - {task.digit}:
        rows = np.flatnonzero(lengths > digit)
        other = replace(task, digit=digit)
        asked = stated(other, problems.iloc[rows])
        whole[rows] &= ask(
            model, tokenizer, *targets(other, tokenizer, template, asked, f"template of {operator}")
        )["correct"]
    return whole


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
        operator: the operator's name, for messages and for the seeded sample, which is the same for
            every model and format.
        task: what the operator asks.
        size: problems in the uniform sample; None takes the whole pool.

    Returns:
        The census table.

    Raises:
        UserError: the template or a prompt breaks a rule, the pool is empty, or the model's logits are not finite.
    """
    problems = stated(task, sample_pairs(pool(task), size, PER_ANSWER, seed, operator))
    prompts, wanted = targets(task, tokenizer, template, problems, f"template of {operator}")
    columns: dict[str, Any] = {**ask(model, tokenizer, prompts, wanted)}
    columns["whole_correct"] = _whole_right(
        model, tokenizer, template, operator, task, problems, columns["correct"]
    )
    table = problems.assign(prompt=prompts, answer_token=wanted, **columns)
    texts = {token: tokenizer.text(token) for token in table["predicted_token"].unique().tolist()}
    return table.assign(predicted=table["predicted_token"].map(texts))
