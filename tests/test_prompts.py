import os
from pathlib import Path

import numpy as np
import pytest

from form_invariance.errors import UserError
from form_invariance.operands import OperandRange
from form_invariance.prompts import PromptTokenizer, check_template, render

LIMITS = OperandRange()


@pytest.fixture(scope="module")
def tokenizer(raw_tokenizer):
    return PromptTokenizer(raw_tokenizer, raw_tokenizer.token_to_id("<|begin_of_text|>"))


def test_all_templates_hold_the_rules_and_have_the_methods_lengths(tokenizer, templates):
    lengths = {"symbolic": 4, "code": 18, "word": 26}
    for name, by_operator in templates.formats.items():
        for operator, (canonical, *variants) in by_operator.items():
            assert len(tokenizer.encode(render(canonical, 226, 68))) == lengths[name]
            for template in (canonical, *variants):
                check_template(tokenizer, template, f"{name} {operator}", LIMITS)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{a}+4=", "must have the fields"),
        ("{a}+{b}+{b}=", "must have the fields"),
        ("{a}+{c}=", "must have the fields"),
        ("{a}+{b", "must have the fields"),
        ("{a}{b}=", "one token"),
        ("{a}+{b}", "next single token"),
        ("1{a}+{b}=", "one token"),
    ],
)
def test_a_template_that_breaks_a_rule_is_refused_with_its_tokens(tokenizer, template, words):
    with pytest.raises(UserError, match=words):
        check_template(tokenizer, template, "here", LIMITS)


def test_numbers_of_several_tokens_are_refused(tokenizer):
    with pytest.raises(UserError, match="number 1000"):
        tokenizer.number_tokens(np.array([5, 1000]))


def test_prompts_of_unequal_length_are_refused_and_bos_comes_once(tokenizer):
    with pytest.raises(UserError, match="differ in length"):
        tokenizer.encode_batch(["1+2=", "1 + 2 = "])
    ids = tokenizer.encode_batch(["1+2=", "3+4="])
    assert ids.shape == (2, 5)
    assert (ids[:, 0] == tokenizer.bos).all()
    assert (ids[:, 1:] != tokenizer.bos).all()


def llama3():
    """The real tokenizer's encoding, where its file is at hand."""
    beside = Path(__file__).parents[2] / "shared/llama3-tokenizer/tokenizer.model"
    path = Path(os.environ.get("LLAMA3_TOKENIZER", beside))
    tiktoken = pytest.importorskip("tiktoken")
    if not path.exists():
        pytest.skip("the Llama-3 tokenizer is not here; name its tokenizer.model in LLAMA3_TOKENIZER")
    import base64

    lines = [line.split() for line in path.read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    from form_invariance.embedded.tokenizer import _LLAMA3_PATTERN

    return tiktoken.Encoding("llama3", pat_str=_LLAMA3_PATTERN, mergeable_ranks=ranks, special_tokens={})


def test_tokens_equal_llama3s_on_every_template(tokenizer, templates):
    real = llama3()
    for template in templates.all():
        for a, b in [(226, 68), (6, 999), (100, 7), (10, 10)]:
            text = render(template, a, b)
            assert tokenizer.tokens(text) == [real.decode([token]) for token in real.encode(text)], text
    for number in range(1000):
        assert len(real.encode(str(number))) == 1


def test_unknown_text_falls_back_to_bytes_and_comes_back(tokenizer):
    text = "Ünknown wörds, 表, and\ttabs 12345\n\n"
    assert tokenizer.tokenizer.decode(tokenizer.encode(text)) == text
