import pytest

from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PAD, PromptTokenizer, check_template
from form_invariance.problems.templates import render


@pytest.fixture(scope="module")
def tokenizer(raw_tokenizer):
    return PromptTokenizer(raw_tokenizer, raw_tokenizer.token_to_id("<|begin_of_text|>"))


def test_all_templates_hold_the_rules_and_have_the_methods_lengths(tokenizer, templates):
    lengths = {"symbolic": 4, "code": 18, "word": 26}
    for name, by_operator in templates.formats.items():
        for operator, (canonical, *variants) in by_operator.items():
            assert len(tokenizer.encode(render(canonical, 226, 68))) == lengths[name]
            for template in (canonical, *variants):
                check_template(tokenizer, template, f"{name} {operator}", OperandRange())


def test_shorter_prompts_are_padded_on_the_left_and_bos_comes_once(tokenizer):
    short, long = tokenizer.encode_batch(["1+2=", "1 + 2 = "]).tolist()
    for ids, text in ((short, "1+2="), (long, "1 + 2 = ")):
        padding = ids.count(PAD)
        assert ids == [PAD] * padding + [tokenizer.bos, *tokenizer.encode(text)]
    assert short.count(PAD) > 0 == long.count(PAD)
    assert tokenizer.encode_batch([]).shape == (0, 0)
