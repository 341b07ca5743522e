"""A cell's train pairs and their corrupt partners as tables; nothing here imports torch."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.tables.files import read_table


def read_train_pairs(dataset: Path, corrupt: Path) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """The train rows of a dataset, by index, and their corrupt partners in the same order, by draw.

    Raises:
        UserError: the two tables are not of one cell, or a pair has equal answers (its indirect effect is
            degenerate).
    """
    table = read_table(dataset, DATASET)
    train = table[table["split"] == "train"].sort_values("index", ignore_index=True)
    draws = []
    for _, draw in read_table(corrupt, CORRUPT).sort_values(["corrupt_seed", "index"]).groupby("corrupt_seed"):
        if draw["index"].tolist() != train["index"].tolist():
            raise UserError(f"{corrupt} does not have one partner for each train prompt of {dataset}")
        if (draw["answer_token"].to_numpy() == train["answer_token"].to_numpy()).any():
            raise UserError(f"{corrupt}: a corrupt partner has the same answer as its prompt")
        draws.append(draw.reset_index(drop=True))
    return train, draws


def unordered(pairs: pd.DataFrame) -> pd.MultiIndex:
    """The operands of each pair, the smaller first."""
    operands = np.sort(pairs[["a", "b"]].to_numpy(), axis=1)
    return pd.MultiIndex.from_arrays([operands[:, 0], operands[:, 1]])


def without(pairs: pd.DataFrame, others: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The pairs whose operands are, in either order, in none of the other tables."""
    for table in others:
        pairs = pairs[~unordered(pairs).isin(unordered(table))]
    return pairs.reset_index(drop=True)


def without_train(pairs: pd.DataFrame, datasets: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The pairs whose operands are, in either order, in no dataset's train set."""
    return without(pairs, (dataset[dataset["split"] == "train"] for dataset in datasets))
