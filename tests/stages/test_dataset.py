from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from example_tables import filled
from hypothesis import given, settings
from hypothesis import strategies as st

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange, operand_pool
from form_invariance.problems.tasks import Arithmetic, leads, prompts_of, stated
from form_invariance.stages.dataset import compute as datasets
from form_invariance.stages.dataset.compute import choose_dataset, derangement, draw_corrupt, sides
from form_invariance.stages.dataset.pairs import read_train_pairs
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.tables.files import write_table


def complete_problems(frame):
    """Hand-made problems with the columns of a census; an answer's token is the answer."""
    problems = stated(Arithmetic("a + b", OperandRange()), frame)
    return problems.assign(whole_correct=True, answer_token=problems["answer"])


def census_of(expression, high, wrong=0.2):
    pool = operand_pool(expression, OperandRange(1, high, 0, 999))
    rng = np.random.default_rng(0)
    prompts = [f"{a} {b}" for a, b in zip(pool["a"], pool["b"], strict=True)]
    return complete_problems(pool.assign(prompt=prompts, correct=rng.random(len(pool)) > wrong))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.sampled_from(["a + b", "a // b", "a * b"]), st.integers(0, 100), st.integers(2, 30), st.integers(1, 30))
def test_splits_are_correct_distinct_and_disjoint(expression, seed, train, evaluation):
    census = census_of(expression, 20)
    dataset = choose_dataset(census, train, evaluation, seed, "x", "{a}{b}")
    assert dataset["split"].value_counts().to_dict() == {"train": train, "eval": evaluation}
    unordered = [frozenset(pair) for pair in zip(dataset["a"], dataset["b"], strict=True)]
    assert len(set(unordered)) == train + evaluation
    right = set(zip(census["a"][census["correct"]], census["b"][census["correct"]], strict=True))
    assert set(zip(dataset["a"], dataset["b"], strict=True)) <= right
    side = sides(census, {"train": train, "eval": evaluation}, seed, "x")
    for split, size in (("train", train), ("eval", evaluation)):
        usable = census[census["correct"] & (side == split)]
        assert datasets.distinct_answers(dataset)[split] == min(size, usable["answer"].nunique())


@pytest.mark.parametrize("expression", ["a + b", "a - b", "a * b", "a // b", "a % b", "max(a, b)"])
def test_splits_are_disjoint_across_formats(expression):
    census = census_of(expression, 60)
    unordered = [frozenset(pair) for pair in zip(census["a"], census["b"], strict=True)]
    found = {"train": set(), "eval": set()}
    for seed in range(3):
        right = np.random.default_rng(seed).random(len(census)) > 0.3
        dataset = choose_dataset(census.assign(correct=right), 20, 30, 0, "x", "{a}{b}")
        for split, rows in dataset.groupby("split"):
            found[split] |= {frozenset(pair) for pair in zip(rows["a"], rows["b"], strict=True)}
    side = sides(census, {"train": 20, "eval": 30}, 0, "x")
    parts = {split: {pair for pair, own in zip(unordered, side, strict=True) if own == split} for split in found}
    assert all(parts[split] >= found[split] for split in found)
    assert not parts["train"] & parts["eval"], "a pair and its reverse are one problem"
    if expression != "a // b":  # Half of its answers are 0: that of a pair's reverse.
        assert not set(census["answer"][side == "train"]) & set(census["answer"][side == "eval"])


@pytest.mark.parametrize("rows", [60, 120, 400])
@pytest.mark.parametrize("answers", [[0, 1], [0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 2]])
def test_few_answers_are_in_both_splits(rows, answers):
    problems = pd.DataFrame({"a": range(rows), "b": -1, "answer": np.resize(answers, rows)})
    census = complete_problems(problems.assign(prompt="", correct=True))
    for seed in range(3):
        dataset, corrupt = datasets.make_dataset({"x": (census, "{w}")}, "x", datasets.Choice(12, 12, 1, seed))
        of_eval, of_train = (set(own["answer"]) for _, own in dataset.groupby("split"))
        assert len(of_train) > 1
        assert of_eval == of_train or len(set(answers)) > 2
        train = dataset[dataset["split"] == "train"]
        assert (corrupt["answer_token"].to_numpy() != train["answer_token"].to_numpy()).all()


def test_no_answer_is_favoured_for_being_frequent():
    frequent = pd.DataFrame({"a": range(900), "b": 1000, "answer": np.arange(900) % 9})
    rare = pd.DataFrame({"a": range(91), "b": 3000, "answer": 9 + np.arange(91)})
    census = complete_problems(pd.concat([frequent, rare], ignore_index=True).assign(prompt="", correct=True))
    chosen = [choose_dataset(census, 10, 10, seed, "x", "{a}{b}")["answer"].lt(9).sum() for seed in range(30)]
    assert 0.5 < np.mean(chosen) < 4  # 1.8 expected; 18 where frequent answers come first


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(0, 5), st.sampled_from([0, 100]))
def test_derangements_exist_exactly_where_brute_force_finds_one(answers, seed, attempts):
    """`derangement` sorts if no random attempt is allowed."""
    answers = np.array(answers)
    possible = any((answers[list(order)] != answers).all() for order in permutations(range(len(answers))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "_ATTEMPTS", attempts)
        if not possible:
            with pytest.raises(UserError, match="corrupt partner"):
                derangement(answers, np.random.default_rng(seed), "x")
            return
        partner = derangement(answers, np.random.default_rng(seed), "x")
    assert sorted(partner) == list(range(len(answers)))
    assert (answers[partner] != answers).all()


def test_corrupt_draws_are_independent_and_across_operators():
    train = choose_dataset(census_of("a + b", 30), 20, 5, 0, "addition", "{a}{b}").query("split == 'train'")
    other = choose_dataset(census_of("a * b", 30), 20, 5, 0, "multiplication", "{a}{b}").query("split == 'train'")
    within = draw_corrupt(train, {}, "addition", 3, 0)
    assert within["partner_operator"].eq("addition").all()
    assert within.groupby("corrupt_seed")["prompt"].apply(tuple).nunique() == 3
    across = draw_corrupt(train, {"addition": train, "multiplication": other}, "addition", 2, 0)
    assert set(across["partner_operator"]) == {"addition", "multiplication"}
    answers = pd.concat([train, train])["answer"].to_numpy()
    assert (across["answer"].to_numpy() != answers).all()


def test_formats_that_are_right_alike_draw_prompts_of_their_own():
    census = census_of("a + b", 60)
    formats = [choose_dataset(census, 50, 50, 0, "addition", template) for template in ("{a}+{b}=", "{a}, {b}:")]
    for split in ("train", "eval"):
        one, other = (set(drawn.loc[drawn["split"] == split, "prompt"]) for drawn in formats)
        assert len(one & other) < 20


@pytest.mark.parametrize("digit", [0, 1])
def test_partners_of_a_digit_have_the_digits_before_it(digit):
    task = Arithmetic("a + b", OperandRange(1, 90, 10, 180), digit)
    rng = np.random.default_rng(0)
    census = stated(task, operand_pool("a + b", task.limits))
    census = census.assign(prompt=prompts_of("{a}+{b}=", census), correct=rng.random(len(census)) > 0.3)
    census = census.assign(answer_token=census["target"].astype(int), whole_correct=False)
    choice = datasets.Choice(30, 20, 3, 0)
    dataset, corrupt = datasets.make_dataset({"addition": (census, "{a}+{b}=")}, "addition", choice)
    train = dataset[dataset["split"] == "train"].set_index("index").loc[corrupt["index"]]
    assert leads(corrupt) == leads(train)
    assert (corrupt["target"].to_numpy() != train["target"].to_numpy()).all()
    assert set(corrupt["prompt"]) <= set(census.loc[census["correct"], "prompt"])
    # Partners come from the train side alone.
    assert not set(corrupt["answer"]) & set(dataset.loc[dataset["split"] == "eval", "answer"])
    assert corrupt.groupby("corrupt_seed")["prompt"].apply(tuple).nunique() == 3


def test_pairs_are_read_by_index_from_files_in_any_order(tmp_path):
    named = {"prompt": lambda table: table.iloc[:, 0].astype(str) + " " + table["index"].astype(str)}
    rows = [("train", 2), ("eval", 1), ("train", 0), ("eval", 0), ("train", 1)]
    dataset = filled(DATASET, rows, "split index", answer_token=7, **named)
    partners = [(1, 0), (0, 2), (1, 2), (0, 1), (1, 1), (0, 0)]
    corrupt = filled(CORRUPT, partners, "corrupt_seed index", answer_token=8, **named)
    files = tmp_path / "dataset.parquet", tmp_path / "corrupt.parquet"
    for path, schema, table in zip(files, (DATASET, CORRUPT), (dataset, corrupt), strict=True):
        write_table(table, path, schema, {}, {"model": "m", "format": "f", "operator": "o"})
    train, draws = read_train_pairs(*files)
    assert train["prompt"].tolist() == ["train 0", "train 1", "train 2"]
    assert [draw["prompt"].tolist() for draw in draws] == [["0 0", "0 1", "0 2"], ["1 0", "1 1", "1 2"]]
