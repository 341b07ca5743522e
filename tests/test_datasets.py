from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from form_invariance.datasets import choose_dataset, derangement, distinct_answers, draw_corrupt
from form_invariance.errors import UserError
from form_invariance.operands import OperandRange, operand_pool


def census_of(expression, high, wrong=0.2):
    pool = operand_pool(expression, OperandRange(1, high, 0, 999))
    rng = np.random.default_rng(0)
    prompts = [f"{a} {b}" for a, b in zip(pool["a"], pool["b"], strict=True)]
    return pool.assign(prompt=prompts, correct=rng.random(len(pool)) > wrong)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["a + b", "a // b", "a * b"]), st.integers(0, 100), st.integers(2, 30), st.integers(1, 30))
def test_splits_are_correct_distinct_and_disjoint(expression, seed, train, evaluation):
    census = census_of(expression, 20)
    dataset = choose_dataset(census, train, evaluation, seed, "x")
    assert (dataset["split"] == "train").sum() == train
    assert (dataset["split"] == "eval").sum() == evaluation
    unordered = [frozenset(pair) for pair in zip(dataset["a"], dataset["b"], strict=True)]
    assert len(set(unordered)) == train + evaluation
    right = set(zip(census["a"][census["correct"]], census["b"][census["correct"]], strict=True))
    assert set(zip(dataset["a"], dataset["b"], strict=True)) <= right
    available = census.loc[census["correct"], "answer"].nunique()
    assert dataset["answer"].nunique() == min(train + evaluation, available)
    if train + evaluation <= available:
        both = [set(dataset.loc[dataset["split"] == split, "answer"]) for split in ("train", "eval")]
        assert not both[0] & both[1]
    for _, rows in dataset.groupby("split"):
        assert rows["index"].tolist() == list(range(len(rows)))


def test_the_choice_is_seeded():
    census = census_of("a + b", 30)
    first, second, other = (choose_dataset(census, 10, 10, seed, "x") for seed in (0, 0, 1))
    assert first.equals(second)
    assert not first.equals(other)
    assert distinct_answers(first) == {"train": 10, "eval": 10}


def test_too_few_correct_pairs():
    with pytest.raises(UserError, match="only 0 distinct pairs right"):
        choose_dataset(census_of("a + b", 5, wrong=1.1), 10, 10, 0, "addition")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(0, 5))
def test_derangements_exist_exactly_where_brute_force_finds_one(answers, seed):
    answers = np.array(answers)
    size = len(answers)
    possible = any((answers[list(order)] != answers).all() for order in permutations(range(size)))
    if not possible:
        with pytest.raises(UserError, match="corrupt partner"):
            derangement(answers, np.random.default_rng(seed), "x")
        return
    partner = derangement(answers, np.random.default_rng(seed), "x")
    assert sorted(partner) == list(range(size))
    assert (answers[partner] != answers).all()


def test_a_tight_derangement():
    answers = np.array([0] * 50 + list(range(1, 51)))
    partner = derangement(answers, np.random.default_rng(0), "x")
    assert (answers[partner] != answers).all()


def test_corrupt_draws_are_independent_and_across_operators():
    train = choose_dataset(census_of("a + b", 30), 20, 5, 0, "addition").query("split == 'train'")
    other = choose_dataset(census_of("a * b", 30), 20, 5, 0, "multiplication").query("split == 'train'")
    within = draw_corrupt(train, {}, "addition", 3, 0)
    assert len(within) == 60
    assert within["operator"].eq("addition").all()
    draws = [rows["prompt"].tolist() for _, rows in within.groupby("corrupt_seed")]
    assert draws[0] != draws[1]
    across = draw_corrupt(train, {"multiplication": other}, "addition", 2, 0)
    assert set(across["operator"]) == {"addition", "multiplication"}
    answers = pd.concat([train, train])["answer"].to_numpy()
    assert (across["answer"].to_numpy() != answers).all()
