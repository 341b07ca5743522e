"""A cell's train and eval prompts as tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.dataset.pairs import read_train_pairs
from form_invariance.stages.dataset.table import DATASET
from form_invariance.tables.files import read_table


@dataclass
class TrainPrompts:
    """A cell's train prompts and their corrupt partners, one list of partners a draw."""

    tokens: Tensor  # (P, T)
    partners: list[list[str]]  # S draws of P prompts
    answers: Tensor  # (S, P, 2): token ids of the clean and of the corrupt answer
    operands: Tensor  # (P, 2): token ids of the clean operands a and b


def train_prompts(
    train: pd.DataFrame, draws: Sequence[pd.DataFrame], tokenizer: PromptTokenizer, device: torch.device
) -> TrainPrompts:
    """Train prompts as tensors.

    Args:
        train: columns prompt and answer_token.
        draws: the same of their corrupt partners.
    """
    own = train["answer_token"].tolist()
    answers = torch.stack([torch.tensor([own, draw["answer_token"].tolist()]).T for draw in draws])
    tokens = torch.from_numpy(tokenizer.encode_batch(train["prompt"].tolist()))
    operands = np.stack([tokenizer.number_tokens(train[name].tolist()) for name in ("a", "b")], axis=1)
    return TrainPrompts(
        tokens.to(device),
        [draw["prompt"].tolist() for draw in draws],
        answers.to(device),
        torch.from_numpy(operands).to(device),
    )


def read_train(dataset: Path, corrupt: Path, tokenizer: PromptTokenizer, device: torch.device) -> TrainPrompts:
    """The train prompts of a dataset with their corrupt partners."""
    return train_prompts(*read_train_pairs(dataset, corrupt), tokenizer, device)


def eval_prompts(dataset: pd.DataFrame, tokenizer: PromptTokenizer, device: torch.device) -> tuple[Tensor, Tensor]:
    """The eval prompts' tokens (P, T) and answers' token ids (P,)."""
    chosen = dataset[dataset["split"] == "eval"].sort_values("index")
    tokens = torch.from_numpy(tokenizer.encode_batch(chosen["prompt"].tolist()))
    return tokens.to(device), torch.tensor(chosen["answer_token"].tolist(), device=device)


def read_eval(path: Path, tokenizer: PromptTokenizer, device: torch.device) -> tuple[Tensor, Tensor]:
    """The same of a dataset's file."""
    return eval_prompts(read_table(path, DATASET), tokenizer, device)


def of_partners(tokenizer: PromptTokenizer, partners: list[str], read: Callable[[Tensor], Tensor]) -> Tensor:
    """What `read` returns for the corrupt partners' tokens (B, T): (layers, P, ...) from (layers, B, ...).

    Partners of other operators may be of other lengths, so each length is a batch of its own.
    """
    lengths = [len(tokenizer.encode(prompt)) for prompt in partners]
    result: Tensor | None = None
    for length in sorted(set(lengths)):
        rows = [row for row, own in enumerate(lengths) if own == length]
        found = read(torch.from_numpy(tokenizer.encode_batch([partners[row] for row in rows])))
        if result is None:
            result = found.new_empty(len(found), len(partners), *found.shape[2:])
        result[:, rows] = found
    assert result is not None
    return result
