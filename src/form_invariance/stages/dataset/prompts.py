"""A cell's train and eval prompts as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.run import Run
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.dataset.pairs import read_train_pairs


@dataclass
class TrainPrompts:
    """A cell's train prompts and their corrupt partners, one list of partners for each draw."""

    tokens: Tensor  # (P, T)
    partners: list[list[str]]  # S draws of P prompts
    answers: Tensor  # (S, P, 2): token ids of the clean and of the corrupt answer


def train_prompts(
    train: pd.DataFrame, draws: Sequence[pd.DataFrame], tokenizer: PromptTokenizer, device: torch.device
) -> TrainPrompts:
    """Train prompts as tensors.

    Args:
        train: columns prompt and answer_token.
        draws: their corrupt partners, with the same columns.
    """
    right = train["answer_token"].tolist()
    answers = torch.stack([torch.tensor([right, draw["answer_token"].tolist()]).T for draw in draws])
    tokens = torch.from_numpy(tokenizer.encode_batch(train["prompt"].tolist()))
    return TrainPrompts(tokens.to(device), [draw["prompt"].tolist() for draw in draws], answers.to(device))


def read_train(dataset: Path, corrupt: Path, tokenizer: PromptTokenizer, device: torch.device) -> TrainPrompts:
    """The train prompts of a dataset with their corrupt partners."""
    return train_prompts(*read_train_pairs(dataset, corrupt), tokenizer, device)


def eval_rows(dataset: pd.DataFrame) -> pd.DataFrame:
    """The eval rows of a dataset, by index."""
    return dataset[dataset["split"] == "eval"].sort_values("index")


def eval_prompts(dataset: pd.DataFrame, run: Run) -> tuple[Tensor, Tensor]:
    """The eval prompts' tokens (P, T) and answers' token ids (P,)."""
    rows = eval_rows(dataset)
    return run.tokens(rows["prompt"].tolist()), torch.tensor(
        rows["answer_token"].tolist(), device=run.model.device
    )
