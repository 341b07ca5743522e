"""Datasets: correctly answered pairs, split into train and eval, and corrupt partners (method, section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.problems.tasks import leads
from form_invariance.randomness import generator
from form_invariance.stages.dataset.pairs import unordered
from form_invariance.tables.columns import PROBLEM

_ATTEMPTS = 1000


@dataclass(frozen=True)
class Choice:
    """The numbers of train prompts, eval prompts and draws of corrupt partners, and the seed of the choice."""

    train: int
    evaluation: int
    draws: int
    seed: int


def make_dataset(
    censuses: Mapping[str, tuple[pd.DataFrame, str]], operator: str, choice: Choice
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The dataset of one cell, and the corrupt partners of its train prompts.

    Args:
        censuses: census table and template of each operator that corrupt partners come from: `operator` alone, or
            several.

    Returns:
        The dataset table and the corrupt table.
    """
    datasets = {
        name: choose_dataset(census, choice.train, choice.evaluation, choice.seed, name, template)
        for name, (census, template) in sorted(censuses.items(), key=lambda item: item[0] != operator)
    }
    train = {name: table[table["split"] == "train"] for name, table in datasets.items()}
    pools = train if len(train) > 1 else {}
    if (train[operator]["digit"] >= 0).all():
        # Partners are all right problems of the train side, because they must share the digits before the target.
        census, _ = censuses[operator]
        side = sides(census, {"train": choice.train, "eval": choice.evaluation}, choice.seed, operator)
        pools = {operator: census[census["correct"] & (side == "train")]}
    return datasets[operator], draw_corrupt(train[operator], pools, operator, choice.draws, choice.seed)


def choose_dataset(
    census: pd.DataFrame, train: int, evaluation: int, seed: int, name: str, template: str
) -> pd.DataFrame:
    """Choose train and eval pairs among the correct ones, each with as many distinct answers as possible.

    Answers are visited in a seeded order, each once before any comes twice. {a, b} in either order counts as one
    pair. The split that a pair may go to depends only on the pairs of the census, which all models and formats
    share: no train prompt of one format is an eval prompt of another. From the pairs of a split each format draws
    its own: even formats that answer the same pairs right are ranked by different prompts.

    Args:
        name: the operator's name, for messages and for the seeded choice.
        template: the format's template, for the seeded choice.

    Returns:
        Columns split, index, those of `PROBLEM`, whole_correct.

    Raises:
        UserError: too few distinct correct pairs.
    """
    sizes = {"train": train, "eval": evaluation}
    side = sides(census, sizes, seed, name)
    parts = []
    for split, size in sizes.items():
        rng = generator(seed, "dataset", name, template, split)
        usable = census[census["correct"] & (side == split)]
        if split == "train" and (census["digit"] >= 0).all():
            usable = usable[_with_partners(usable)]
        usable = usable.iloc[rng.permutation(len(usable))]
        split_rows = usable.iloc[_diverse(usable, size, rng)]
        if len(split_rows) < size:
            raise UserError(
                f"dataset of {name}: of the pairs set apart for {split} the model answers only {len(split_rows)} "
                f"distinct ones right, but {split}_prompts is {size}; raise census_pairs or lower {split}_prompts"
            )
        split_rows = split_rows[[*PROBLEM, "whole_correct"]].iloc[rng.permutation(size)]
        parts.append(split_rows.assign(split=split, index=np.arange(size)))
    return pd.concat(parts, ignore_index=True)


def sides(census: pd.DataFrame, sizes: dict[str, int], seed: int, name: str) -> pd.Series:
    """The split that each pair of the census may go to, answered right or wrong: the same in every format.

    All pairs with the same answer go to one split, so that no answer is in both. A pair whose two orders have
    answers of different splits is in neither. If this leaves a split fewer than twice the pairs that it needs, or
    too few answers for the corrupt partners of train prompts, pairs go to a split whatever their answers.

    Args:
        census: columns a, b, answer, digit.
        sizes: the number of pairs that each split needs.

    Returns:
        The split's name, or "" for neither, indexed like the census.
    """
    pair = pd.Series(unordered(census).factorize()[0], index=census.index)
    rng = generator(seed, "split", name)
    by_answer = _deal(census["answer"], sizes, rng)
    by_answer = by_answer.mask(by_answer.groupby(pair).transform("nunique") > 1, "")
    enough = all(pair[by_answer == split].nunique() >= 2 * size for split, size in sizes.items())
    enough = enough and _have_partners(census[by_answer == "train"], sizes["train"])
    return by_answer if enough else _deal(pair, sizes, rng)


def _have_partners(rows: pd.DataFrame, size: int) -> bool:
    """Whether `size` of these problems can be partners of each other: no answer has more than half of them.

    Where a digit is asked, partners come from all train problems (`make_dataset`), so it does not matter.
    """
    most = rows["answer"].value_counts().clip(upper=max(size // 2, 1))
    return bool(most.sum() >= size or (rows["digit"] >= 0).all())


def _deal(keys: pd.Series, sizes: dict[str, int], rng: np.random.Generator) -> pd.Series:
    """Deal the distinct keys to the splits at random, in proportion to their sizes."""
    distinct = np.sort(keys.unique())
    limits = np.cumsum(list(sizes.values()))
    slots = rng.permutation(len(distinct)) * limits[-1] // len(distinct)
    split = np.array(list(sizes))[np.searchsorted(limits, slots, side="right")]
    return keys.map(dict(zip(distinct, split, strict=True)))


def _diverse(rows: pd.DataFrame, size: int, rng: np.random.Generator) -> list[int]:
    """Positions of at most `size` rows, no operand pair twice, every answer once before any comes again."""
    groups = rows.groupby("answer").indices
    answers = list(groups)
    waiting = {answers[index]: list(groups[answers[index]]) for index in rng.permutation(len(answers))}
    pairs = [frozenset(pair) for pair in zip(rows["a"], rows["b"], strict=True)]
    taken: set[frozenset[int]] = set()
    positions: list[int] = []
    while waiting and len(positions) < size:
        # If a whole round fits, the rarest answers choose first, before others take their pairs.
        everyone = size - len(positions) >= len(waiting)
        for answer in sorted(waiting, key=lambda answer: len(waiting[answer])) if everyone else list(waiting):
            free = [position for position in waiting[answer] if pairs[position] not in taken]
            if not free or len(positions) == size:
                del waiting[answer]
                continue
            taken.add(pairs[free[0]])
            positions.append(int(free[0]))
            waiting[answer] = free[1:]
    return positions


def derangement(answers: np.ndarray, rng: np.random.Generator, where: str) -> np.ndarray:
    """A random permutation that gives every prompt a partner with another answer, each partner once.

    Args:
        answers: token ids of the answers, (n,).

    Returns:
        Positions of the partners, (n,).

    Raises:
        UserError: there is no such permutation, because more than half of the prompts have the same answer.
    """
    size = len(answers)
    _, counts = np.unique(answers, return_counts=True)
    if size < 2 or counts.max() * 2 > size:
        raise UserError(
            f"{where}: the answers of {counts.max() if size else 0} of {size} train prompts have the same token, "
            "so not all can get a corrupt partner with another one; widen the operand range, add rows to the "
            "table, or raise train_prompts"
        )
    for _ in range(_ATTEMPTS):
        partner = rng.permutation(size)
        for position in np.flatnonzero(answers == answers[partner]):
            answer = answers[position]
            fits = np.flatnonzero((answers[partner] != answer) & (answers != answer))
            if answers[partner[position]] == answer and len(fits):
                swap = fits[rng.integers(len(fits))]
                partner[[position, swap]] = partner[[swap, position]]
        if (answers != answers[partner]).all():
            return partner
    # In the order of the answers, a shift by the largest count gives no prompt its own answer.
    order = np.argsort(answers, kind="stable")
    partner = np.empty(size, dtype=np.int64)
    partner[order] = np.roll(order, counts.max())
    return partner


def draw_corrupt(
    train: pd.DataFrame, pools: Mapping[str, pd.DataFrame], operator: str, draws: int, seed: int
) -> pd.DataFrame:
    """Corrupt partners of the train prompts, several independent draws.

    Args:
        pools: problems of each operator that may be partners. Empty: partners are a derangement of the train
            prompts.

    Returns:
        The corrupt table.

    Raises:
        UserError: no problem with another answer can be a prompt's partner.
    """
    pool = pd.concat(
        [problems.assign(partner_operator=name) for name, problems in (pools or {operator: train}).items()]
    )
    tables = []
    for draw in range(draws):
        rng = generator(seed, "corrupt", operator, draw)
        if pools:
            partner_rows = _other_answers(train, pool, rng)
        else:
            partner_rows = derangement(train["answer_token"].to_numpy(), rng, f"dataset of {operator}")
        partners = pool.iloc[partner_rows][["partner_operator", *PROBLEM]].reset_index(drop=True)
        tables.append(partners.assign(corrupt_seed=draw, index=train["index"].to_numpy()))
    return pd.concat(tables, ignore_index=True)


def _with_partners(rows: pd.DataFrame) -> np.ndarray:
    """Which problems may have a partner: a problem with the same digits before the target and another target."""
    return np.asarray(rows.groupby(leads(rows))["target"].transform("nunique") > 1)


def _other_answers(train: pd.DataFrame, pool: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """For each prompt a random row of the pool with the same digits before the target and another target token."""
    by_lead, answers = pool.groupby(leads(pool)).indices, pool["answer_token"].to_numpy()
    partner_rows = []
    for lead, answer in zip(leads(train), train["answer_token"], strict=True):
        fits = by_lead[lead][answers[by_lead[lead]] != answer]
        if not len(fits):
            raise UserError(
                f"dataset: the answers of all train prompts have the same token, {answer}; widen the operand "
                "range, or add rows to the table"
            )
        partner_rows.append(fits[rng.integers(len(fits))])
    return np.array(partner_rows)


def distinct_answers(dataset: pd.DataFrame) -> dict[str, int]:
    """The number of distinct answers in each split."""
    return {split: int(dataset.loc[dataset["split"] == split, "answer"].nunique()) for split in ("train", "eval")}
