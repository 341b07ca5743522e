"""Exact effects of neurons in paraphrases of a cell's prompts, found as in the cell itself (beyond the paper)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import prompts_of, target_tokens
from form_invariance.stages.attribution.candidates import candidates_of
from form_invariance.stages.attribution.compute import first_stage
from form_invariance.stages.census.compute import ask
from form_invariance.stages.dataset.prompts import TrainPrompts, train_prompts
from form_invariance.stages.membership import to_tensors
from form_invariance.stages.paraphrases.table import FEWEST
from form_invariance.stages.patching.compute import patch_candidates
from form_invariance.stages.run import Run


def reworded(
    tokenizer: PromptTokenizer, pairs: pd.DataFrame, templates: Mapping[str, Sequence[str]], number: int
) -> pd.DataFrame:
    """The problems with the prompts of a variant, and with their answers' tokens there.

    Args:
        pairs: columns operator, b, answer, target, fields.
        templates: the variants of every operator among them.
        number: which of them, from 0.

    Raises:
        UserError: an operator has no such variant.
    """
    for operator in pairs["operator"].unique():
        if len(templates.get(operator, ())) <= number:
            raise UserError(
                f"variants: {operator} has no variant {number + 1}, but corrupt partners come from this operator; "
                "give every operator as many variants, or set corrupt to within_operator"
            )
    parts = []
    for operator in pairs["operator"].unique():
        of_operator = pairs[pairs["operator"] == operator]
        prompts = prompts_of(templates[operator][number], of_operator)
        tokens = target_tokens(tokenizer, prompts, of_operator, f"variants.{operator}[{number}]")
        parts.append(of_operator.assign(prompt=prompts, answer_token=tokens))
    return pd.concat(parts).loc[pairs.index]


def answered(model: Decoder, tokenizer: PromptTokenizer, prompts: pd.DataFrame) -> np.ndarray:
    """Which prompts the model answers right, bool, (P,)."""
    return ask(model, tokenizer, prompts["prompt"].tolist(), prompts["answer_token"].to_numpy())["correct"]


def exact_effects(
    run: Run, train: TrainPrompts, candidates: int, method: str
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Both stages of the ranking on some prompts: the first one's estimates, then exact patching of the best.

    Args:
        train: prompts with their corrupt partners, S draws of them; the first draw chooses the candidates.
        candidates: neurons of a layer that are patched.
        method: of the first stage.

    Returns:
        By late layer the exact effects (S, P, C) and the candidates (C,).
    """
    chosen = candidates_of(first_stage(run, train, candidates, method), run.model.device)
    return patch_candidates(run, train, chosen), chosen


def variant_tensors(
    run: Run,
    train: pd.DataFrame,
    partners: pd.DataFrame,
    templates: Mapping[str, Sequence[str]],
    number: int,
    candidates: int,
    method: str,
) -> dict[str, Tensor]:
    """The measurements of one variant on a cell's train pairs.

    Args:
        train: the train pairs: operator and the columns of `PROBLEM`.
        partners: their corrupt partners, the same columns.
        templates: variants of every operator.
        number: which variant, from 0.

    Returns:
        `right` and `partners_right` (P,), which train pairs and which partners the model answers right; and
        of the right ones, where there are enough, `effects.L` (1, right, C) and `candidates.L` (C,).
    """
    clean, other = (reworded(run.tokenizer, pairs, templates, number) for pairs in (train, partners))
    right, partners_right = (answered(run.model, run.tokenizer, prompts) for prompts in (clean, other))
    tensors = {"right": torch.from_numpy(right), "partners_right": torch.from_numpy(partners_right)}
    if right.sum() >= FEWEST:
        prompts = train_prompts(clean[right], [other[right]], run.tokenizer, run.model.device)
        tensors |= to_tensors(*exact_effects(run, prompts, candidates, method))
    return tensors


def final_tokens(tokenizer: PromptTokenizer, train: pd.DataFrame, texts: Sequence[str]) -> list[int]:
    """Ids of the last tokens of the cell's own prompts and of those of each variant."""
    example = train.iloc[:1]
    wordings = [example["prompt"].iloc[0], *(prompts_of(text, example)[0] for text in texts)]
    return [tokens[-1] for tokens in tokenizer.encode_each(wordings)]
