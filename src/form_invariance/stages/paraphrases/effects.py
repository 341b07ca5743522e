"""Exact effects of neurons in paraphrases of a cell's prompts, found as in the cell itself (beyond the paper)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.errors import UserError
from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer, render
from form_invariance.stages.attribution.compute import attribute, attribution_table
from form_invariance.stages.cells import (
    TrainPrompts,
    candidates_of,
    corrupt_activations,
    patch_candidates,
    train_prompts,
)
from form_invariance.stages.census.compute import ask
from form_invariance.stages.ranking.compute import FEWEST


def reworded(pairs: pd.DataFrame, templates: Mapping[str, Sequence[str]], number: int) -> pd.DataFrame:
    """The pairs with the prompts of a variant.

    Args:
        pairs: columns operator, a, b.
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
    rows = zip(pairs["operator"], pairs["a"], pairs["b"], strict=True)
    return pairs.assign(prompt=[render(templates[operator][number], a, b) for operator, a, b in rows])


def answered(model: Decoder, tokenizer: PromptTokenizer, prompts: pd.DataFrame) -> np.ndarray:
    """Which prompts the model answers right, bool, (P,); they may be of several operators, and so of lengths."""
    right = np.zeros(len(prompts), dtype=bool)
    for rows in prompts.groupby("operator").indices.values():
        own = prompts.iloc[rows]
        right[rows] = ask(model, tokenizer, own["prompt"].tolist(), own["answer"].to_numpy())["correct"]
    return right


def exact_effects(
    model: Decoder, tokenizer: PromptTokenizer, train: TrainPrompts, first: int, candidates: int
) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
    """Both stages of the ranking on some prompts: attribution, then exact patching of the best.

    Args:
        train: prompts with their corrupt partners, S draws of them; the first draw chooses the candidates.
        first: first late layer.
        candidates: neurons of a layer that are patched.

    Returns:
        By late layer the exact effects (S, P, C) and the candidates (C,).
    """
    corrupt = corrupt_activations(model, tokenizer, train.partners[0], first)
    effects = attribute(model, train.tokens, corrupt, train.answers[0], first)
    table = attribution_table(effects.cpu().numpy(), first, candidates)
    chosen = candidates_of(table, model.device)
    return patch_candidates(model, tokenizer, train, first, chosen), chosen


def variant_tensors(
    model: Decoder,
    tokenizer: PromptTokenizer,
    train: pd.DataFrame,
    partners: pd.DataFrame,
    templates: Mapping[str, Sequence[str]],
    number: int,
    first: int,
    candidates: int,
) -> dict[str, Tensor]:
    """What one variant gives on a cell's train pairs.

    Args:
        train: the train pairs, columns operator, a, b, answer, answer_token.
        partners: their corrupt partners, the same columns.
        templates: variants of every operator.
        number: which variant, from 0.

    Returns:
        `right` and `partners_right` (P,), which train pairs and which partners the model answers right; and
        of the right ones, where there are enough, `effects.L` (1, right, C) and `candidates.L` (C,).
    """
    own, other = (reworded(pairs, templates, number) for pairs in (train, partners))
    right, partners_right = (answered(model, tokenizer, prompts) for prompts in (own, other))
    tensors = {"right": torch.from_numpy(right), "partners_right": torch.from_numpy(partners_right)}
    if right.sum() >= FEWEST:
        prompts = train_prompts(own[right], [other[right]], tokenizer, model.device)
        effects, chosen = exact_effects(model, tokenizer, prompts, first, candidates)
        tensors |= {f"effects.{layer}": values for layer, values in effects.items()}
        tensors |= {f"candidates.{layer}": neurons for layer, neurons in chosen.items()}
    return tensors
