"""Datasets: correctly answered pairs, split into train and eval, and corrupt partners (method, section 2)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.randomness import generator

_ATTEMPTS = 1000


def choose_dataset(census: pd.DataFrame, train: int, evaluation: int, seed: int, name: str) -> pd.DataFrame:
    """Choose correct pairs with as many distinct answers as possible, and split them.

    Answers are visited in a seeded order, each once before any comes twice. {a, b} in either order counts
    as one pair, and a pair is in one split at most. Where the pool has as many distinct answers, no
    answer is in both splits; where it has not (division), answers repeat, and a repeated answer stays
    within one split as far as the sizes allow.

    Args:
        census: census table.
        train: number of train prompts.
        evaluation: number of eval prompts.
        name: the operator's name, for messages and for the seeded choice.

    Returns:
        Columns split, index, a, b, answer, prompt.

    Raises:
        UserError: too few distinct correct pairs.
    """
    rng = generator(seed, "dataset", name)
    size = train + evaluation
    correct = census[census["correct"]]
    correct = correct.iloc[rng.permutation(len(correct))]
    chosen = correct.iloc[_diverse(correct, size)]
    if len(chosen) < size:
        raise UserError(
            f"dataset of {name}: the model answers only {len(chosen)} distinct pairs right, but train_prompts "
            f"+ eval_prompts = {size} are needed; raise census_pairs or lower train_prompts and eval_prompts"
        )
    # Whole answers go to one split, the most frequent first, as long as they fit.
    splits = pd.Series("", index=chosen.index)
    room = {"train": train, "eval": evaluation}
    groups = [group for _, group in chosen.groupby("answer", sort=False)]
    for group in sorted(groups, key=len, reverse=True):
        rows = list(group.index)
        split = rng.choice(["train", "eval"], p=np.array([room["train"], room["eval"]]) / sum(room.values()))
        for one in (split, "eval" if split == "train" else "train"):
            taken = rows[: room[one]]
            splits[taken] = one
            room[one] -= len(taken)
            rows = rows[len(taken) :]
    result = chosen[["a", "b", "answer", "prompt"]].assign(split=splits)
    result = result.iloc[rng.permutation(size)].sort_values("split", ascending=False, kind="stable")
    return result.assign(index=result.groupby("split").cumcount()).reset_index(drop=True)


def _diverse(rows: pd.DataFrame, size: int) -> list[int]:
    """Positions of at most `size` rows, no operand pair twice, every answer once before any comes again."""
    waiting = {answer: list(positions) for answer, positions in rows.groupby("answer", sort=False).indices.items()}
    pairs = [frozenset(pair) for pair in zip(rows["a"], rows["b"], strict=True)]
    taken: set[frozenset[int]] = set()
    chosen: list[int] = []
    while waiting and len(chosen) < size:
        # Where a whole round fits, the rarest answers choose first, so that none finds its pairs taken.
        everyone = size - len(chosen) >= len(waiting)
        for answer in sorted(waiting, key=lambda one: len(waiting[one])) if everyone else list(waiting):
            free = [position for position in waiting[answer] if pairs[position] not in taken]
            if not free or len(chosen) == size:
                del waiting[answer]
                continue
            taken.add(pairs[free[0]])
            chosen.append(int(free[0]))
            waiting[answer] = free[1:]
    return chosen


def derangement(answers: np.ndarray, rng: np.random.Generator, where: str) -> np.ndarray:
    """A random permutation that gives every prompt a partner with another answer, each partner once.

    Args:
        answers: (n,).

    Returns:
        Positions of the partners, (n,).

    Raises:
        UserError: there is none, since one answer is that of more than half of the prompts.
    """
    size = len(answers)
    _, counts = np.unique(answers, return_counts=True)
    if size < 2 or counts.max() * 2 > size:
        raise UserError(
            f"{where}: {counts.max() if size else 0} of {size} train prompts have one answer, so not all can get "
            "a corrupt partner with another answer; widen the operand range or raise train_prompts"
        )
    for _ in range(_ATTEMPTS):
        partner = rng.permutation(size)
        for position in np.flatnonzero(answers == answers[partner]):
            own = answers[position]
            fits = np.flatnonzero((answers[partner] != own) & (answers != own))
            if answers[partner[position]] == own and len(fits):
                swap = fits[rng.integers(len(fits))]
                partner[[position, swap]] = partner[[swap, position]]
        if (answers != answers[partner]).all():
            return partner
    # Sorted by answer and shifted by the largest count, no prompt meets its own answer.
    order = np.argsort(answers, kind="stable")
    partner = np.empty(size, dtype=np.int64)
    partner[order] = np.roll(order, counts.max())
    return partner


def draw_corrupt(
    train: pd.DataFrame, others: dict[str, pd.DataFrame], operator: str, draws: int, seed: int
) -> pd.DataFrame:
    """Corrupt partners of the train prompts, several independent draws.

    Args:
        train: the cell's train prompts.
        others: train prompts of other operators of the same model and format, by operator; partners
            then come from all operators alike. Empty: a derangement within the operator.

    Returns:
        The corrupt table without answer_token.

    Raises:
        UserError: a prompt can get no partner with another answer.
    """
    tables = []
    for draw in range(draws):
        rng = generator(seed, "corrupt", operator, draw)
        if others:
            pool = pd.concat([one.assign(operator=name) for name, one in {operator: train, **others}.items()])
            partners = pool.iloc[_other_answers(train["answer"].to_numpy(), pool["answer"].to_numpy(), rng)]
        else:
            chosen = derangement(train["answer"].to_numpy(), rng, f"dataset of {operator}")
            partners = train.iloc[chosen].assign(operator=operator)
        partners = partners[["operator", "a", "b", "answer", "prompt"]].reset_index(drop=True)
        tables.append(partners.assign(corrupt_seed=draw, index=train["index"].to_numpy()))
    return pd.concat(tables, ignore_index=True)


def _other_answers(answers: np.ndarray, pool: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each answer a random position of the pool that has another one."""
    chosen = []
    for answer in answers:
        fits = np.flatnonzero(pool != answer)
        if not len(fits):
            raise UserError(f"dataset: all train prompts have the answer {answer}; widen the operand range")
        chosen.append(fits[rng.integers(len(fits))])
    return np.array(chosen)


def distinct_answers(dataset: pd.DataFrame, splits: Sequence[str] = ("train", "eval")) -> dict[str, int]:
    """How many distinct answers each split has."""
    return {split: int(dataset.loc[dataset["split"] == split, "answer"].nunique()) for split in splits}
