from collections import Counter

import numpy as np
import pytest
from hostile_values import FUZZ
from hypothesis import given
from hypothesis import strategies as st

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange, evaluate, operand_pool, sample_pairs
from form_invariance.randomness import generator


def test_the_pool_fits_the_papers_tables():
    limits = OperandRange()
    assert len(operand_pool("a * b", limits)) == 2520  # Table correct_census
    assert operand_pool("a // b", limits)["answer"].nunique() == 164


@pytest.mark.parametrize("expression", ["a - b", "a * b", "a // b", "a % b", "max(a, b)", "-a + 2*b", "abs(a-b)"])
def test_expressions_equal_pythons(expression):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 50, size=(2, 300))
    answers, defined = evaluate(expression, a, b)
    for x, y, answer, known in zip(a.tolist(), b.tolist(), answers.tolist(), defined, strict=True):
        assert answer == eval(expression, {"a": x, "b": y, "max": max, "abs": abs}) if known else y == 0


def test_what_is_not_exact_is_not_defined():
    *_, defined = evaluate("a * a * a - a * a * a", np.array([2 * 10**5, 3 * 10**5]), np.array([1, 1]))
    assert defined.tolist() == [True, False]


def test_an_empty_pool_is_refused():
    with pytest.raises(UserError, match="no pair of"):
        operand_pool("a * b", OperandRange(operand_min=500, operand_max=600))


@FUZZ
@given(st.none() | st.integers(0, 30), st.integers(1, 3), st.integers(0, 5))
def test_samples_are_uniform_parts_plus_cover(size, per_answer, seed):
    pool = operand_pool("a // b", OperandRange(0, 12, 0, 12))
    seen, expected = Counter(), []
    for place, row in enumerate(pool.iloc[generator(seed, "census", "x").permutation(len(pool))].itertuples()):
        uniform = size is None or place < size
        if uniform or seen[row.answer] < per_answer:
            expected.append((row.a, row.b, row.answer, uniform))
        seen[row.answer] += 1
    sample = sample_pairs(pool, size, per_answer, seed, "x")
    assert [*sample.itertuples(index=False, name=None)] == sorted(expected)
