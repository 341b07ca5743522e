"""The tasks on which a circuit is tried: eval prompts of operators, copying, comparing, plain text."""

import io
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.beyond.specificity.table import TEXT
from form_invariance.errors import UserError, one_line
from form_invariance.experiment.contrasts import Problem, problems_of
from form_invariance.experiment.intervene import answer
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.problems.prompts import check_next_token, rendered
from form_invariance.problems.templates import check_task_fields
from form_invariance.randomness import generator
from form_invariance.stages.dataset.prompts import eval_prompts, eval_rows
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.user_files import read_bytes

FEWEST = 20
"""With fewer correct prompts a task is undefined."""
TRIED = 5
"""Prompts of copying or comparing that the model answers, for each one wanted; as many others give the means."""
CONTEXT = 32
"""Tokens of plain text before the predicted one."""
GUESSING = 0.7
"""A model whose loss on plain text is above this share of log(vocabulary) cannot read it."""


@dataclass(frozen=True)
class Task:
    """Prompts of one length with their answers, and what replaces an ablated neuron in them."""

    name: str
    tokens: Tensor  # (P, T)
    answers: Tensor  # (P,): token ids
    means: MeanCache
    problems: list[Problem]
    """Of the prompts: the formats have them in common, as far as they ask the same."""
    undefined: str = ""
    """Why nothing is measured on it; empty if it is."""


def operator_task(run: Run, operator: str, dataset: pd.DataFrame, means: MeanCache) -> Task:
    """An operator's eval prompts in one format; `dataset` is the dataset table of this cell."""
    rows = eval_rows(dataset)
    prompts = eval_prompts(dataset, run.tokenizer, run.model.device)
    return Task(operator, *prompts, means, problems_of(operator, rows["a"], rows["b"]))


def number_task(
    run: Run, name: str, expression: str, template: str, limits: OperandRange, most: int, seed: int
) -> Task:
    """A task on numbers: the prompts of a template that the unmodified model answers correctly.

    Args:
        expression: of the answer, for instance ``max(a, b)``.
        template: with the field ``{a}``, and ``{b}`` if the answer depends on it; a field may come twice.
        most: prompts at most; at least `FEWEST`.

    Raises:
        UserError: the answer is not the next single token after a prompt, or the prompts differ in length.
    """
    where = f"the task {name}"
    check_task_fields(template, where, expression)
    pool = operand_pool(expression, limits)
    pool = pool[pool["a"] != pool["b"]]  # of two equal numbers none is the larger one
    pool = pool if "{b}" in template else pool.drop_duplicates("a")
    order = generator(seed, "specificity", name).permutation(len(pool))
    tried, others = (pool.iloc[order[start : start + TRIED * most]] for start in (0, TRIED * most))
    others = others if len(others) else tried
    prompts = rendered(template, tried)
    check_next_token(run.tokenizer, prompts, tried["answer"].to_numpy(), where)
    tokens, answers = run.tokens(prompts), run.answer_tokens(tried["answer"].to_numpy())
    right = answer(run, tokens, answers).correct
    means = last_token_means(run.model, run.tokens(rendered(template, others)), run.first)
    kept = tried[right.cpu().numpy()][:most]
    problems = problems_of(name, kept["a"], kept["b"])
    task = Task(name, tokens[right][:most], answers[right][:most], means, problems)
    if len(task.tokens) < FEWEST:
        return replace(task, undefined=f"fewer than {FEWEST} of {len(tokens)} prompts are answered correctly")
    return task


def read_text(path: Path, sha256: str | None = None) -> str:
    """The text of a file.

    Args:
        sha256: of the file that is meant, if that is known.

    Raises:
        UserError: it cannot be read as UTF-8, or is not the one that is meant.
    """
    try:
        return io.StringIO(read_bytes(path, sha256).decode("utf-8-sig"), newline=None).read()
    except (OSError, ValueError) as error:
        raise UserError(f"the plain text {path} cannot be read as UTF-8: {one_line(error)}") from None


def text_task(run: Run, text: str, most: int) -> Task:
    """Plain text: the next token after windows of `CONTEXT` tokens, evenly spaced. Other windows give the means.

    Args:
        most: predicted tokens at most.

    Raises:
        UserError: the text is too short.
    """
    tokens = run.tokenizer.encode(text)
    if len(tokens) < 2 * CONTEXT:
        raise UserError(
            f"the plain text has {len(tokens)} tokens; the task {TEXT} needs at least {2 * CONTEXT}, better "
            "thousands"
        )
    windows = np.lib.stride_tricks.sliding_window_view(np.array(tokens), CONTEXT + 1)
    chosen = np.unique(np.linspace(0, len(windows) - 1, min(most, len(windows) // 2)).round().astype(int))
    rest = np.setdiff1d(np.arange(len(windows)), chosen)
    spaced = rest[np.linspace(0, len(rest) - 1, min(TRIED * most, len(rest))).round().astype(int)]
    measured, others = (_with_bos(run, windows[where]) for where in (chosen, spaced))
    means = last_token_means(run.model, others[:, :-1], run.first)
    places: list[Problem] = [(TEXT, place) for place in chosen.tolist()]
    task = Task(TEXT, measured[:, :-1], measured[:, -1], means, places)
    probability = answer(run, task.tokens, task.answers).probability
    loss, guess = float(-probability.log().mean()), math.log(run.model.config.vocabulary)
    if loss > GUESSING * guess:
        return replace(task, undefined=f"loss {loss:.2f} is near that of a uniform guess, {guess:.2f}")
    return task


def _with_bos(run: Run, windows: np.ndarray) -> Tensor:
    """Windows (n, tokens) with BOS in front, if the model has one, on its device."""
    bos = [] if run.tokenizer.bos is None else [run.tokenizer.bos]
    opened = np.hstack([np.tile(np.array(bos, dtype=np.int64), (len(windows), 1)), windows])
    return torch.from_numpy(opened).to(run.model.device)
