"""Trials: the share of right answers to a few dozen problems, by wording and number of worked examples."""

import math
import time
from collections.abc import Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, TableTask, targets
from form_invariance.scouting.questions import EXAMPLES, FIRST, AskedQuestion, draw
from form_invariance.scouting.wordings import with_examples
from form_invariance.stages.census.compute import ask, ask_every_digit
from form_invariance.tables.progress import Progress, silent


def trials(
    model: Decoder,
    tokenizer: PromptTokenizer,
    questions: Sequence[AskedQuestion],
    seed: int,
    counts: Sequence[int] = EXAMPLES,
    until: float = math.inf,
) -> pd.DataFrame:
    """Try every wording of every question, with progress: the first wording of each, then the second, and so on.

    Args:
        counts: numbers of worked examples.
        until: the time (`time.monotonic`) after which no trial begins, except the first one.

    Returns:
        Columns format, operator, examples, wording, template (the wording after its examples), by_digit (a list of
        shares of right answers: one, or one for each digit), right (the smallest of these), tokens (of the longest
        prompt) and misfit (why the template does not fit the tokenizer; empty if it does).
    """
    all_trials = [
        (position, number, question, name, wording, count)
        for question in questions
        for name, wordings in question.wordings.items()
        for position, wording in enumerate(wordings)
        for number, count in enumerate(counts)
    ]
    progress = Progress(len(all_trials), "trials")
    rows: dict[int, dict[str, object]] = {}
    drawn = {question.operator: draw(question, seed, max(counts)) for question in questions}
    for trial in sorted(range(len(all_trials)), key=lambda trial: all_trials[trial][:2]):
        if rows and time.monotonic() > until:
            break
        question, name, wording, count = all_trials[trial][2:]
        examples, problems = drawn[question.operator]
        row = {"format": name, "operator": question.operator, "examples": count, "wording": wording, "misfit": ""}
        try:
            with silent():
                where, words = f"{name} {question.operator}", isinstance(question.task, TableTask)
                template = with_examples(tokenizer, wording, examples.head(count), where, words)
                measures = _ask(model, tokenizer, question, template, problems)
            rows[trial] = {**row, "template": template, **measures}
        except UserError as error:
            misfit = {"right": 0.0, "by_digit": [], "tokens": 0, "misfit": str(error)}
            rows[trial] = {**row, "template": wording, **misfit}
        progress.add(1, f"{name} {question.operator}")
    return pd.DataFrame([rows[trial] for trial in sorted(rows)])


def _ask(
    model: Decoder,
    tokenizer: PromptTokenizer,
    question: AskedQuestion,
    template: str,
    problems: pd.DataFrame,
) -> dict[str, object]:
    """The columns right, by_digit and tokens of one trial."""
    where = "the wording"
    prompts, target_tokens = targets(question.task, tokenizer, template, problems, where)

    def correct(part: slice) -> np.ndarray:  # (problems, digits)
        if not question.digits:
            return ask(model, tokenizer, prompts[part], target_tokens[part])["correct"][:, None]
        assert isinstance(question.task, Arithmetic)
        return ask_every_digit(model, tokenizer, template, where, question.task, problems[part])["correct"]

    right = correct(slice(FIRST))
    if right.any(0).all():
        right = np.concatenate([right, correct(slice(FIRST, None))])
    shares = right.mean(0).tolist()
    return {"right": min(shares), "by_digit": shares, "tokens": tokenizer.encode_batch(prompts).shape[1]}
