"""The tasks of the knockout on which no neurons were ranked, and plain text."""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError, one_line
from form_invariance.experiment.contrasts.engine import Problem, problems_of
from form_invariance.experiment.intervene import answer
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.measurements import TEXT
from form_invariance.experiment.other_tasks import CONTEXT, FEWEST, MEANS, TRIED
from form_invariance.experiment.run import Run
from form_invariance.problems.configured import operands_of, prepare, problems_for
from form_invariance.problems.tasks import Task
from form_invariance.randomness import generator
from form_invariance.stages.mean_cache.compute import last_token_means
from form_invariance.user_files import read_bytes


@dataclass(frozen=True)
class TaskPrompts:
    """Prompts of one length with their answers, and the means that replace ablated neurons."""

    name: str
    tokens: Tensor  # (P, T)
    answers: Tensor  # (P,): token ids
    means: MeanCache
    problems: list[Problem]
    """The problem of each prompt; formats that ask the same problem have it in common."""
    undefined: str = ""
    """Why nothing is measured on the task; empty if it is measured."""

    def operands(self) -> pd.DataFrame:
        """The columns index, a and b of the prompts in the tables by prompt."""
        _, *values = zip(*self.problems, strict=True)
        a, b = values if len(values) == 2 else (-1, values[0])
        return pd.DataFrame({"index": np.arange(len(self.problems)), "a": a, "b": b})


def other_task(run: Run, name: str, definition: Task, template: str, most: int, seed: int) -> TaskPrompts:
    """A task that no circuit is ranked on: the prompts of a template that the unmodified model answers correctly.

    Args:
        template: as in `prepare`.
        most: largest number of prompts; at least `FEWEST`.

    Raises:
        UserError: a field of the template is missing, or a target is not the next single token after its prompt.
    """
    problems = problems_for(definition, template)
    order = generator(seed, "specificity", name).permutation(len(problems))
    problems = problems.iloc[order[: (TRIED + MEANS) * most]]
    prompts, targets = prepare(definition, run.tokenizer, template, problems, f"the task {name}")
    answers = torch.from_numpy(targets).to(run.model.device)
    numbers = [problems[operand] for operand in operands_of(definition)]
    return _answered_right(run, name, run.tokens(prompts), answers, problems_of(name, *numbers), most)


def _answered_right(
    run: Run, name: str, tokens: Tensor, answers: Tensor, problems: list[Problem], most: int
) -> TaskPrompts:
    """The first prompts that the unmodified model answers correctly; others, at most a third, give the means.

    Args:
        tokens: the prompts' tokens, in a random order, (P, T).
        most: largest number of right answers.
    """
    others = min(MEANS * most, len(tokens) // 3)
    means = last_token_means(run.model, tokens[:others], run.first)
    tokens, answers, problems = tokens[others:], answers[others:], problems[others:]
    right, tried = tokens.new_empty(0, dtype=torch.bool), 0
    while tried < min(TRIED * most, len(tokens)) and right.sum() < most:
        batch = slice(tried, tried + most)
        right = torch.cat([right, answer(run, tokens[batch], answers[batch]).correct])
        tried = len(right)
    kept = right.nonzero()[:most, 0]
    task = TaskPrompts(name, tokens[kept], answers[kept], means, [problems[row] for row in kept.tolist()])
    if len(kept) < FEWEST:
        return replace(task, undefined=f"fewer than {FEWEST} of {tried} prompts are answered correctly")
    return task


def read_text(path: Path, sha256: str | None = None) -> str:
    """The text of a file.

    Args:
        sha256: expected digest of the file, if it is known.

    Raises:
        UserError: the file cannot be read as UTF-8, or has another digest.
    """
    try:
        return io.StringIO(read_bytes(path, sha256).decode("utf-8-sig"), newline=None).read()
    except (OSError, ValueError) as error:
        raise UserError(f"the plain text {path} cannot be read as UTF-8: {one_line(error)}") from None


def text_task(run: Run, text: str, most: int) -> TaskPrompts:
    """Plain text: the next token after windows of `CONTEXT` tokens, where the unmodified model predicts it.

    The windows are evenly spaced, and tried in a random order.

    Args:
        most: largest number of predicted tokens.

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
    number = min((TRIED + MEANS) * most, len(windows))
    starts = np.linspace(0, len(windows) - 1, number).round().astype(int)
    starts = generator(0, "text").permutation(np.unique(starts))
    window_tokens = _with_bos(run, windows[starts])
    problems: list[Problem] = [(TEXT, start) for start in starts.tolist()]
    return _answered_right(run, TEXT, window_tokens[:, :-1], window_tokens[:, -1], problems, most)


def _with_bos(run: Run, windows: np.ndarray) -> Tensor:
    """Windows (n, tokens) with BOS in front, if the model has it, on the model's device."""
    bos = [] if run.tokenizer.bos is None else [run.tokenizer.bos]
    opened = np.hstack([np.tile(np.array(bos, dtype=np.int64), (len(windows), 1)), windows])
    return torch.from_numpy(opened).to(run.model.device)
