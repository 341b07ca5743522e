"""Trials: how many of a few dozen problems a model answers right in each wording and number of worked examples."""

from collections.abc import Sequence

import pandas as pd

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import Arithmetic, TableTask, targets
from form_invariance.scouting.questions import EXAMPLES, Question, draw
from form_invariance.scouting.wordings import with_examples
from form_invariance.stages.census.compute import ask, ask_every_digit
from form_invariance.tables.progress import Progress, silent


def trials(
    model: Decoder,
    tokenizer: PromptTokenizer,
    questions: Sequence[Question],
    seed: int,
    counts: Sequence[int] = EXAMPLES,
) -> pd.DataFrame:
    """Try every wording of every question, with progress.

    Args:
        counts: numbers of worked examples.

    Returns:
        Columns format, operator, examples, wording, template (the wording after its examples), by_digit (a list of
        shares of right answers: one, or one for each digit), right (the smallest of these), tokens (of the longest
        prompt) and misfit (why the template does not fit the tokenizer; empty if it does).
    """
    every = [
        (question, name, wording, count)
        for question in questions
        for name, wordings in question.wordings.items()
        for wording in wordings
        for count in counts
    ]
    progress = Progress(len(every), "trials")
    rows = []
    drawn = {question.operator: draw(question, seed, max(counts)) for question in questions}
    for question, name, wording, count in every:
        examples, problems = drawn[question.operator]
        row = {"format": name, "operator": question.operator, "examples": count, "wording": wording, "misfit": ""}
        try:
            with silent():
                where, words = f"{name} {question.operator}", isinstance(question.task, TableTask)
                template = with_examples(tokenizer, wording, examples.head(count), where, words)
                found = _ask(model, tokenizer, question, template, problems)
            rows.append({**row, "template": template, **found})
        except UserError as error:
            rows.append(
                {**row, "template": wording, "right": 0.0, "by_digit": [], "tokens": 0, "misfit": str(error)}
            )
        progress.add(1, f"{name} {question.operator}")
    return pd.DataFrame(rows)


def _ask(
    model: Decoder,
    tokenizer: PromptTokenizer,
    question: Question,
    template: str,
    problems: pd.DataFrame,
) -> dict[str, object]:
    """The columns right, by_digit and tokens of one trial."""
    where = "the wording"
    prompts, wanted = targets(question.task, tokenizer, template, problems, where)
    if question.digits:
        assert isinstance(question.task, Arithmetic)
        correct = ask_every_digit(model, tokenizer, template, where, question.task, problems)["correct"]
    else:
        correct = ask(model, tokenizer, prompts, wanted)["correct"][:, None]
    shares = correct.mean(0).tolist()
    return {"right": min(shares), "by_digit": shares, "tokens": tokenizer.encode_batch(prompts).shape[1]}
