"""What an operator asks: prompts filled from fields, and the first token or one digit of an answer."""

import re

import numpy as np
import pytest
from digit_tokenizers import by_digit, byte_level, metaspace
from hostile_values import refusal
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from form_invariance.errors import UserError
from form_invariance.problems import tasks
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer, check_next_token
from form_invariance.problems.tasks import Arithmetic, TableTask, check_task, first_tokens, pool, stated, targets

WORDS = ("Ġmice", "Ġmouse", "Ġone", "Ġtwo", "Answer", "ouses", "mice", "mouse", "two", "one")
"""Words that are one token; those with a space are joined first."""


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level tokenizer whose words may begin with a space, as in GPT-2; `mouses` are two tokens."""
    vocabulary = {letter: place for place, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges = []
    for word in WORDS:
        for end in range(1, len(word)):
            vocabulary.setdefault(word[: end + 1], len(vocabulary))
            merges.append((word[:end], word[end]))
    one = Tokenizer(models.BPE(vocabulary, list(dict.fromkeys(merges))))
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    one.decoder = decoders.ByteLevel()
    return PromptTokenizer(one, None)


def test_the_answer_follows_directly_or_after_a_space(tokenizer):
    for prompts, answer, text in (
        (["one mouse, two", "one:"], "mice", " mice"),  # after a word, or a mark that ends one
        (['one: "', '"'], "mice", "mice"),  # after a quotation mark
        (["one=", "="], "mice", "mice"),
        (["one ->", "#"], "mice", " mice"),  # after any other sign
        (["one mouse, two"], "mouses", " mouse"),  # the first of several tokens
    ):
        found = first_tokens(tokenizer, prompts, [answer] * len(prompts), "x")
        assert [tokenizer.text(token) for token in found] == [text] * len(prompts)
    # A worked example, or a space before a sign between words, says whether a space follows that sign.
    for prompt, text in (
        ("[one] = two, [mouse] =", " mice"),
        ("[one]= two, [mouse]=", " mice"),
        ("[one] =two, [mouse] =", "mice"),
        ("one:two, mouse:", "mice"),
        ("[one] -", " mice"),
        ("[one]-", "mice"),
        ('[one] "', "mice"),
        ("mouse:\none:", " mice"),  # no example: a line break follows the sign
    ):
        assert tokenizer.text(first_tokens(tokenizer, [prompt], ["mice"], "x")[0]) == text
    # Each row has its own answer to whether a space comes first.
    rows = [("one mouse, two", "mice", " mice"), ("one:", " two", " two"), ("one: '", "two", "two")]
    found = first_tokens(tokenizer, [row[0] for row in rows], [row[1] for row in rows], "x")
    assert [tokenizer.text(token) for token in found] == [row[2] for row in rows]
    # The answer's token begins with a space, and the prompt has it already.
    with pytest.raises(UserError, match=r"^x: the tokenizer splits 'Answer: mice' as .*without a space$"):
        first_tokens(tokenizer, ["Answer: "], ["mice"], "x")


def table_task(folder, text):
    (folder / "task.csv").write_text(text)
    return TableTask(folder / "task.csv", "answer")


def test_a_table_is_asked_with_its_fields(tokenizer, tmp_path):
    task = table_task(tmp_path, "word,answer\nmouse,mice\none,two\n")
    prompts, wanted = targets(task, tokenizer, "one {word}, two", stated(task, pool(task)), "x")
    assert prompts == ["one mouse, two", "one one, two"]
    assert [tokenizer.text(token) for token in wanted] == [" mice", " two"]
    for template in ("one {wrod}, two", "one, two", "{word} {answer}"):
        with pytest.raises(UserError, match=r"^x: template .* must have at least one of .* fields, \{word\}"):
            check_task(task, tokenizer, template, "x")


SAME = "id,word,of,answer\n\n1,mouse,x,mice\n2,one,x,two\n3,mouse,x,mouse\n"
JOINED = "first,second,answer\nab,c,x\na,bc,y\n"
SAME_PROMPTS = [
    (SAME, "{of}: {{word}}, two", "rows 1 and 3", "{id} {word}"),
    (JOINED, "{first}{second}", "'abc': rows 1 and 2", "{first} {second}"),
]


@pytest.mark.parametrize(("text", "template", "rows", "apart"), SAME_PROMPTS)
def test_two_rows_with_one_prompt_are_refused(tmp_path, text, template, rows, apart):
    """Another column tells the rows apart, but not the prompts."""
    task = table_task(tmp_path, text)
    said = rf"^here: template .* gives two problems the same prompt, .*{rows} of {task.path}; add a field"
    with pytest.raises(UserError, match=said):
        tasks.check_wording(task, template, "here")
    tasks.check_wording(task, apart, "here")


def test_two_texts_with_the_same_tokens_are_refused(tokenizer, tmp_path):
    own = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    own.normalizer = normalizers.NFC()
    task = table_task(tmp_path, "word,answer\ncaf\u00e9,one\ncafe\u0301,two\n")
    check_task(task, tokenizer, "{word}, two", "here")
    said = r"^here: the tokenizer gives two problems the same prompt, .*: rows 1 and 2"
    with pytest.raises(UserError, match=said):
        check_task(task, PromptTokenizer(own, None), "{word}, two", "here")


def test_the_text_of_bos_is_refused_for_every_task(raw_tokenizer, tmp_path):
    bos = "<|begin_of_text|>"
    whole = PromptTokenizer(raw_tokenizer, raw_tokenizer.token_to_id(bos))
    digits = PromptTokenizer(by_digit(raw_tokenizer), whole.bos)
    sums, said = OperandRange(10, 20, 20, 40), f"^here: .*{re.escape(repr(bos))} begins every prompt already"
    for task, tokenizer, template in (
        (Arithmetic("a + b", sums), whole, bos + "{a}+{b}="),
        (Arithmetic("a + b", sums, 1), digits, bos + "{a}+{b}="),
        (table_task(tmp_path, f"word,answer\nmouse,mice\n{bos}one,two\n"), whole, "{word} ="),
    ):
        with pytest.raises(UserError, match=said):
            check_task(task, tokenizer, template, "here")
        with pytest.raises(UserError, match=said):
            targets(task, tokenizer, template, stated(task, pool(task)), "here")
    with pytest.raises(UserError, match=said):
        check_next_token(whole, [f" {bos}12="], [12], "here")


LIMITS = OperandRange(1, 60, 0, 999)
PRODUCTS = ["{a}*{b}=", "print({a} * {b})  # "]
SPLIT = {
    "digits": by_digit,
    "bytes": lambda _: byte_level(PRODUCTS),
    "spaces as letters": lambda _: metaspace(PRODUCTS, prepend=False),
    "a space before all text": lambda _: metaspace(PRODUCTS, prepend=True),
}
"""From a tokenizer that keeps numbers whole to one that splits them."""


@pytest.mark.parametrize("template", PRODUCTS)
@pytest.mark.parametrize("digit", [0, 1, 2])
@pytest.mark.parametrize("split", SPLIT)
def test_the_prompt_ends_in_the_digits_before_the_target(raw_tokenizer, split, digit, template):
    splitting = PromptTokenizer(SPLIT[split](raw_tokenizer), None)
    task = Arithmetic("a * b", LIMITS, digit)
    problems = stated(task, pool(task))
    assert (problems["answer"].astype(str).str.len() > digit).all()
    some = problems.iloc[::97].reset_index(drop=True)
    prompts, wanted = targets(task, splitting, template, some, "x")
    for row, prompt, token in zip(some.itertuples(), prompts, wanted, strict=True):
        text = str(row.a * row.b)
        assert prompt == template.format(a=row.a, b=row.b) + text[:digit]
        assert splitting.text(token) == row.target == text[digit]


def carry_by_hand(a, b, digit, subtract):
    """School arithmetic from the last digit on: the carry or borrow into a digit of the answer."""
    carry = 0
    for place in range(len(str(a - b if subtract else a + b)) - 1 - digit):
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
    assert (stated(product, pool(product))["carry"] == tasks.UNKNOWN).all()


def test_a_digit_has_one_place_in_all_answers():
    for limits, digit, said in (
        ((1, 60, 0, 999), 0, "1 to 3 digits; narrow .* to 100 and 999"),
        ((1, 60, 0, 999), 1, "2 to 3 digits; narrow .* to 100 and 999"),
        ((60, 60, 100, 999), 2, ""),
        # Answers without this digit are no problems of the task.
        ((1, 40, 1, 99), 1, ""),
    ):
        _, text = refusal(tasks.check_places, Arithmetic("a + b", OperandRange(*limits), digit))
        assert re.fullmatch(said and f"digit {digit} of .* in all answers, which have {said}", text), text
