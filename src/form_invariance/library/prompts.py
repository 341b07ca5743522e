"""Prompts as tables, and the model's answers to them."""

from itertools import chain

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.experiment.intervene import answer as answer_prompts
from form_invariance.experiment.readout import Readout
from form_invariance.experiment.run import Run
from form_invariance.library.models import as_loaded
from form_invariance.library.tables import (
    column,
    lists_of_numbers,
    lists_of_texts,
    names_of,
    refusal,
    shown,
    texts,
    whole_numbers,
)
from form_invariance.problems.prompts import encode_prompts
from form_invariance.problems.tasks import first_tokens
from form_invariance.problems.templates import check_fields, fields_of, fill

CENTER = True
"""Whether logits are centred before they are normalised; config/config.yaml has the same in `center_logits`."""
ANSWERED = ("predicted", "correct", "probability", "normalized_logit")
"""Columns that `answer` adds."""


@as_loaded
def make_prompts(model: Run, template: str, rows: pd.DataFrame, answer: str = "answer") -> pd.DataFrame:
    """The prompts of a template, and the first token of each answer.

    >>> rows = pd.DataFrame({"a": ["12", "30"], "b": ["7", "41"], "answer": ["19", "71"]})
    >>> make_prompts(load_model("embedded:embedded-shared"), "{a}+{b}=", rows)["prompt"].tolist()
    ['12+7=', '30+41=']

    Args:
        template: text with a field for each column that it uses, for instance ``{word}``.
        rows: one row for each problem. Its values become text; whole numbers that a gap in a column turned into
            floats are written as whole numbers.
        answer: the column of answers. A cell may be a list of accepted answers.

    Returns:
        The rows, and the columns prompt, answer_token (of the first accepted answer), template and tokenizer (its
        digest; a model with another tokenizer refuses the prompts). If a cell has several answers, also
        accepted_tokens: the first tokens of all of them. Columns of these names in the rows are replaced or
        removed. Columns that `answer` adds are removed, unless the prompts are made from them.

    Raises:
        UserError: a field is not a column, a cell is empty or cannot be text, a prompt has BOS, or an answer does
            not begin a token after its prompt.
    """
    names = names_of(rows, "rows")
    if not isinstance(template, str):
        raise UserError(f"template: {shown(template)} must be text with a field for each column that it takes")
    check_fields(template, "make_prompts", names)
    fields = list(dict.fromkeys(fields_of(template, names)))
    columns = [texts(rows, name, "rows") for name in fields]
    answers = lists_of_texts(rows, answer, "rows")
    numbers = list(map(len, answers))
    if not len(rows):
        raise UserError("rows: the table has no row")
    prompts = [fill(template, dict(zip(fields, row, strict=True))) for row in zip(*columns, strict=True)]
    repeated_prompts = np.repeat(np.array(prompts, dtype=object), numbers).tolist()
    tokens = first_tokens(model.tokenizer, repeated_prompts, list(chain(*answers)), f"template {template!r}")
    each = [part.tolist() for part in np.split(tokens, np.cumsum(numbers)[:-1])]
    # The rows may have columns that another model gave them.
    stale = ["accepted_tokens", *(name for name in ANSWERED if name not in (*fields, answer))]
    prompt_table = rows.drop(columns=stale, errors="ignore").assign(
        prompt=prompts,
        answer_token=[part[0] for part in each],
        template=template,
        tokenizer=model.tokenizer.digest,
    )
    return prompt_table if len(tokens) == len(rows) else prompt_table.assign(accepted_tokens=each)


@as_loaded
def answer(model: Run, prompts: pd.DataFrame) -> pd.DataFrame:
    """The unmodified model's answers.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> rows = pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]})
    >>> answer(model, make_prompts(model, "{a}+{b}=", rows))["predicted"].tolist()
    ['19', '71']

    Returns:
        The prompts, and the columns predicted (the most probable token), correct, probability (of the answer) and
        normalized_logit (the answer's logit divided by the largest). If the model gives another accepted answer,
        that becomes the answer_token, so that effects are measured on the answer that the model gives.
    """
    tokens, answers = tensors_of(model, prompts, "prompts")
    readout = answer_prompts(model, tokens, answers, CENTER)
    measured_answers = torch.where(
        torch.tensor(_correct(prompts, readout), device=answers.device), readout.predicted, answers
    )
    if not torch.equal(measured_answers, answers):
        prompts = prompts.assign(answer_token=measured_answers.tolist())
        readout = answer_prompts(model, tokens, measured_answers, CENTER)
    return with_readout(model, prompts, readout)


def accepted_of(prompts: pd.DataFrame, argument: str = "prompts") -> list[list[int]]:
    """The first tokens of each prompt's accepted answers; without accepted_tokens, the answer_token alone."""
    answers = whole_numbers(prompts, "answer_token", argument).tolist()
    if "accepted_tokens" not in names_of(prompts, argument):
        return [[token] for token in answers]
    several = lists_of_numbers(prompts, "accepted_tokens", argument)
    for row, (token, accepted) in enumerate(zip(answers, several, strict=True)):
        if accepted is not None and token not in accepted:
            rule = f"has the answer_token {token}, which is not in its accepted_tokens, {shown(accepted)}"
            raise refusal(prompts, row, argument, f"{rule}; make the prompts again (make_prompts)")
    return [accepted or [token] for token, accepted in zip(answers, several, strict=True)]


def _correct(prompts: pd.DataFrame, readout: Readout) -> list[bool]:
    """Whether the most probable token begins an accepted answer."""
    return [
        token in accepted for token, accepted in zip(readout.predicted.tolist(), accepted_of(prompts), strict=True)
    ]


def with_readout(model: Run, prompts: pd.DataFrame, readout: Readout) -> pd.DataFrame:
    """The prompts with their readout."""
    return prompts.assign(
        predicted=[model.tokenizer.text(token) for token in readout.predicted.tolist()],
        correct=_correct(prompts, readout),
        probability=readout.probability.cpu().numpy(),
        normalized_logit=readout.normalized_logit.cpu().numpy(),
    )


def tensors_of(model: Run, prompts: pd.DataFrame, argument: str) -> tuple[Tensor, Tensor]:
    """Token ids (P, T) and answers (P,) of prompts, which messages name by `argument`."""
    prompt_texts = prompts_of(model, prompts, argument)
    answers, tokens = whole_numbers(prompts, "answer_token", argument), model.model.config.vocabulary
    for row, token in enumerate(answers):
        if not 0 <= token < tokens:
            rule = f"has the answer_token {token}; the model has the tokens 0..{tokens - 1}"
            raise refusal(prompts, row, argument, rule)
    return model.tokens(prompt_texts), torch.from_numpy(answers).to(model.model.device)


def prompts_of(model: Run, table: pd.DataFrame, argument: str) -> list[str]:
    """The prompts of a table."""
    values = column(table, "prompt", argument)
    if not values:
        raise UserError(f"{argument}: the table has no row")
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise refusal(table, row, argument, f"has {shown(value)} as prompt; give text")
    for row, ids in enumerate(encode_prompts(model.tokenizer, values, argument)):
        if not ids:
            raise refusal(table, row, argument, f"has the prompt {values[row]!r}, which has no token")
    _check_tokenizer(model, table, argument)
    return values


def _check_tokenizer(model: Run, table: pd.DataFrame, argument: str) -> None:
    """Check that no prompt was made for another tokenizer; prompts made by hand pass without a check."""
    made_for = column(table, "tokenizer", argument) if "tokenizer" in names_of(table, argument) else []
    for row, digest in enumerate(made_for):
        if isinstance(digest, str) and digest != model.tokenizer.digest:
            rule = "was made for a model with another tokenizer; make the prompts with this model (make_prompts)"
            raise refusal(table, row, argument, rule)


def mask_of(model: Run, neurons: pd.DataFrame) -> np.ndarray:
    """Neurons as a mask, bool (late layers, m)."""
    layers, numbers = (whole_numbers(neurons, name, "neurons") for name in ("layer", "neuron"))
    wrong = (layers < model.first) | (layers > model.late[-1]) | (numbers < 0) | (numbers >= model.width)
    if wrong.any():
        raise UserError(
            f"neurons: layer {layers[wrong][0]}, neuron {numbers[wrong][0]} is not in the studied layers, "
            f"{model.late[0]}..{model.late[-1]} with {model.width} neurons each; load_model(first_layer=...) sets "
            "the first of them"
        )
    mask = np.zeros((len(model.late), model.width), dtype=bool)
    mask[layers - model.first, numbers] = True
    return mask


def same_number(prompts: pd.DataFrame, others: pd.DataFrame, name: str) -> None:
    """Check that there are as many other prompts as prompts."""
    if len(prompts) != len(others):
        raise UserError(f"{name}: {len(others)} prompts for {len(prompts)}; give one for each, in the same order")
