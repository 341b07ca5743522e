"""What an operator asks: prompts filled from fields, and the first token of an answer."""

import re

import pytest
from digit_tokenizers import by_digit
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer, check_next_token
from form_invariance.problems.tasks import (
    Arithmetic,
    TableTask,
    check_task,
    check_wording,
    first_tokens,
    pool,
    stated,
    targets,
)

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


@pytest.mark.parametrize(
    ("prompts", "answer", "text"),
    [
        (["one mouse, two", "two"], "mice", " mice"),  # after a word
        (["Answer:", "one:"], "mice", " mice"),  # after a mark that ends one
        (['one: "', '"'], "mice", "mice"),  # after a quotation mark
        (["one=", "="], "mice", "mice"),
        (["one ->", "#"], "mice", " mice"),  # after any other sign
        (["one mouse, two"], "mouses", " mouse"),  # the first of several tokens
    ],
)
def test_the_answer_follows_directly_or_after_a_space(tokenizer, prompts, answer, text):
    found = first_tokens(tokenizer, prompts, [answer] * len(prompts), "x")
    assert [tokenizer.text(token) for token in found] == [text] * len(prompts)


def test_an_answer_that_no_token_begins_is_refused(tokenizer):
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


@pytest.mark.parametrize(
    ("text", "template", "rows", "apart"),
    [
        (SAME, "one {word}, two", "rows 1 and 3", "{id} {word}"),
        (SAME, "{of}: {{word}}, two", "rows 1 and 3", "{id} {word}"),
        (JOINED, "{first}{second}", "'abc': rows 1 and 2", "{first} {second}"),
    ],
)
def test_two_rows_with_one_prompt_are_refused(tmp_path, text, template, rows, apart):
    """Another column tells the rows apart, but not the prompts."""
    task = table_task(tmp_path, text)
    said = rf"^here: template .* gives two problems the same prompt, .*{rows} of {task.path}; add a field"
    with pytest.raises(UserError, match=said):
        check_wording(task, template, "here")
    check_wording(task, apart, "here")


def test_two_texts_with_the_same_tokens_are_refused(tokenizer, tmp_path):
    own = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    own.normalizer = normalizers.NFC()
    task = table_task(tmp_path, "word,answer\ncaf\u00e9,one\ncafe\u0301,two\n")
    check_task(task, tokenizer, "{word}, two", "here")
    with pytest.raises(
        UserError, match=r"^here: the tokenizer gives two problems the same prompt, .*: rows 1 and 2"
    ):
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
