"""A model, prompts as tables, and what the model says."""

from argparse import Namespace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model import files, loading
from form_invariance.model.readout import Readout
from form_invariance.problems.tasks import fill, first_tokens
from form_invariance.stages.mean_cache.ablation import unmodified
from form_invariance.stages.model_options import device_of, dtype_of
from form_invariance.stages.run import Run

CENTER = True
"""Normalised logits are those of centred logits, as `center_logits` says in config/config.yaml."""


def load_model(
    source: str,
    first_layer: int | None = None,
    dtype: str = "float32",
    device: str = "auto",
    revision: str | None = None,
) -> Run:
    """A model with its tokenizer.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> model.late
    range(3, 6)

    Args:
        source: a Hugging Face folder, a hub id, or embedded:NAME.
        first_layer: the first layer whose neurons are studied; None takes the second half of the layers.
        dtype: float32, tf32 or bfloat16.
        device: auto, cpu, cuda, ...

    Raises:
        UserError: the model cannot be read, or is of no family that the package knows.
    """
    options = Namespace(dtype=dtype, device=device)
    folder = files.resolve(source, revision)
    model = loading.load(folder, dtype=dtype_of(options), device=device_of(options))
    layers = model.config.n_layers
    first = layers // 2 if first_layer is None else first_layer
    if not 0 <= first < layers:
        raise UserError(f"first_layer: {first} must be a layer of 0..{layers - 1} of this model")
    return Run(model, files.load_tokenizer(folder), first)


def make_prompts(model: Run, template: str, rows: pd.DataFrame, answer: str = "answer") -> pd.DataFrame:
    """The prompts of a template, and the first token of each answer.

    >>> rows = pd.DataFrame({"a": ["12", "30"], "b": ["7", "41"], "answer": ["19", "71"]})
    >>> make_prompts(load_model("embedded:embedded-shared"), "{a}+{b}=", rows)["prompt"].tolist()
    ['12+7=', '30+41=']

    Args:
        template: with a field for each column that it takes, for instance ``{word}``.
        rows: one row a problem; columns are taken as text.
        answer: the column of answers.

    Returns:
        The rows, and the columns prompt and answer_token.

    Raises:
        UserError: a column is missing, or an answer does not begin a token after its prompt.
    """
    need(rows, answer)
    texts = rows.astype(str)
    names = [str(name) for name in texts.columns]
    prompts = [fill(template, dict(zip(names, row, strict=True))) for row in texts.itertuples(index=False)]
    tokens = first_tokens(model.tokenizer, prompts, texts[answer], f"template {template!r}")
    return rows.assign(prompt=prompts, answer_token=tokens)


def answer(model: Run, prompts: pd.DataFrame) -> pd.DataFrame:
    """What the unmodified model says.

    >>> model = load_model("embedded:embedded-shared", device="cpu")
    >>> rows = pd.DataFrame({"a": [12, 30], "b": [7, 41], "answer": [19, 71]})
    >>> answer(model, make_prompts(model, "{a}+{b}=", rows))["predicted"].tolist()
    ['19', '71']

    Returns:
        The prompts, and the columns predicted (the most probable token), correct, probability (of the answer) and
        normalized_logit (the answer's logit divided by the largest).
    """
    tokens, answers = tensors_of(model, prompts)
    return told(model, prompts, unmodified(model.model, tokens, answers, model.first, CENTER))


def told(model: Run, prompts: pd.DataFrame, readout: Readout) -> pd.DataFrame:
    """The prompts with their readout."""
    return prompts.assign(
        predicted=[model.tokenizer.text(token) for token in readout.predicted.tolist()],
        correct=readout.correct.cpu().numpy(),
        probability=readout.probability.cpu().numpy(),
        normalized_logit=readout.normalized_logit.cpu().numpy(),
    )


def tensors_of(model: Run, prompts: pd.DataFrame) -> tuple[Tensor, Tensor]:
    """Token ids (P, T) and answers (P,)."""
    need(prompts, "prompt", "answer_token")
    answers = torch.tensor(prompts["answer_token"].tolist(), device=model.model.device)
    return model.tokens(prompts["prompt"].tolist()), answers


def mask_of(model: Run, neurons: pd.DataFrame) -> np.ndarray:
    """Neurons as a mask, bool (late layers, m)."""
    need(neurons, "layer", "neuron")
    layers, numbers = (neurons[name].to_numpy(dtype=np.int64) for name in ("layer", "neuron"))
    wrong = ~np.isin(layers, list(model.late)) | (numbers < 0) | (numbers >= model.width)
    if wrong.any():
        raise UserError(
            f"neurons: layer {layers[wrong][0]}, neuron {numbers[wrong][0]} is none of the layers "
            f"{model.late[0]}..{model.late[-1]} with {model.width} neurons each; load_model(first_layer=...) says "
            "where the studied layers begin"
        )
    mask = np.zeros((len(model.late), model.width), dtype=bool)
    mask[layers - model.first, numbers] = True
    return mask


def need(table: pd.DataFrame, *columns: str) -> None:
    """Check that a table has columns."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise UserError(f"the table has no column {missing[0]!r}; it has {', '.join(map(str, table.columns))}")


def same_number(prompts: pd.DataFrame, others: pd.DataFrame, name: str) -> None:
    """Check that there is one other prompt for each."""
    if len(prompts) != len(others):
        raise UserError(f"{name}: {len(others)} prompts for {len(prompts)}; give one for each, in the same order")
