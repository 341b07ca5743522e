"""One digit of an answer: prompts that end in the digits before it, carries, and refusals."""

import re

import numpy as np
import pytest
from digit_tokenizers import by_digit, byte_level, metaspace
from hostile_values import refusal

from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import (
    UNKNOWN,
    Arithmetic,
    check_places,
    leads,
    pool,
    stated,
    targets,
)

LIMITS = OperandRange(1, 60, 0, 999)
TEMPLATES = ["{a}*{b}=", "print({a} * {b})  # "]
SPLIT = {
    "digits": by_digit,
    "bytes": lambda _: byte_level(TEMPLATES),
    "spaces as letters": lambda _: metaspace(TEMPLATES, prepend=False),
    "a space before all text": lambda _: metaspace(TEMPLATES, prepend=True),
}
"""From a tokenizer that keeps numbers whole to one that splits them."""


@pytest.fixture(scope="module", params=SPLIT)
def tokenizer(request, raw_tokenizer):
    return PromptTokenizer(SPLIT[request.param](raw_tokenizer), None)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("digit", [0, 1, 2])
def test_the_prompt_ends_in_the_digits_before_the_target(tokenizer, digit, template):
    task = Arithmetic("a * b", LIMITS, digit)
    problems = stated(task, pool(task))
    assert (problems["answer"].astype(str).str.len() > digit).all()
    some = problems.iloc[::97].reset_index(drop=True)
    prompts, wanted = targets(task, tokenizer, template, some, "x")
    for row, prompt, token in zip(some.itertuples(), prompts, wanted, strict=True):
        text = str(row.a * row.b)
        assert prompt == template.format(a=row.a, b=row.b) + text[:digit]
        assert tokenizer.text(token) == row.target == text[digit]
    assert leads(some) == [str(answer)[:digit] for answer in some["answer"]]


def carry_by_hand(a, b, digit, subtract):
    """School arithmetic from the last digit on: the carry or borrow into a digit of the answer."""
    answer = str(a - b if subtract else a + b)
    carry = 0
    for place in range(len(answer) - 1 - digit):
        one, other = a // 10**place % 10, b // 10**place % 10
        carry = int(one - other - carry < 0) if subtract else int(one + other + carry > 9)
    return carry


@pytest.mark.parametrize("digit", [0, 1])
@pytest.mark.parametrize("expression", ["a + b", "a - b"])
def test_carries_are_those_of_school_arithmetic(expression, digit):
    task = Arithmetic(expression, OperandRange(0, 130, 0, 999), digit)
    problems = stated(task, pool(task))
    pairs = problems[["a", "b"]].itertuples(index=False)
    expected = [carry_by_hand(a, b, digit, expression == "a - b") for a, b in pairs]
    assert problems["carry"].tolist() == expected
    assert 0 < np.mean(expected) < 1
    product = Arithmetic("a * b", LIMITS, digit)
    assert (stated(product, pool(product))["carry"] == UNKNOWN).all()


@pytest.mark.parametrize(
    ("limits", "digit", "said"),
    [
        ((1, 60, 0, 999), 0, "1 to 3 digits; narrow .* to 100 and 999"),
        ((1, 60, 0, 999), 1, "2 to 3 digits; narrow .* to 100 and 999"),
        ((10, 99, 20, 999), 0, "2 to 3 digits; narrow .* to 100 and 999"),
        ((60, 60, 100, 999), 2, ""),
        ((10, 99, 10, 99), 0, ""),
        # Answers without this digit are no problems of the task.
        ((1, 40, 1, 99), 1, ""),
    ],
)
def test_a_digit_has_one_place_in_all_answers(limits, digit, said):
    _, text = refusal(check_places, Arithmetic("a + b", OperandRange(*limits), digit))
    where = f"digit {digit} of 'a + b' has not the same place in all answers, which have "
    assert re.fullmatch(re.escape(where) + said if said else "", text), text
