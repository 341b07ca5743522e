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
    ("prompts", "text"),
    [
        (["one mouse, two", "two"], " mice"),  # after a word
        (["Answer:", "one:"], " mice"),  # after a mark that ends one
        (['one: "', '"'], "mice"),  # after a quotation mark
        (["one=", "="], "mice"),
        (["one ->", "#"], " mice"),  # after any other sign
    ],
)
def test_the_answer_follows_directly_or_after_a_space(tokenizer, prompts, text):
    found = first_tokens(tokenizer, prompts, ["mice"] * len(prompts), "x")
    assert [tokenizer.text(token) for token in found] == [text] * len(prompts)


def test_the_target_is_the_first_of_several_tokens(tokenizer):
    (found,) = first_tokens(tokenizer, ["one mouse, two"], ["mouses"], "x")
    ids = tokenizer.encode("one mouse, two mouses")
    assert len(ids) > len(tokenizer.encode("one mouse, two")) + 1
    assert found == ids[len(tokenizer.encode("one mouse, two"))]


def test_an_answer_that_no_token_begins_is_refused(tokenizer):
    # The answer's token begins with a space, and the prompt has it already.
    with pytest.raises(UserError, match=r"^x: the tokenizer splits 'Answer: mice' as .*without a space$"):
        first_tokens(tokenizer, ["Answer: "], ["mice"], "x")


def test_a_table_is_asked_with_its_fields(tokenizer, tmp_path):
    path = tmp_path / "task.csv"
    path.write_text("word,answer\nmouse,mice\none,two\n")
    task = TableTask(path, "answer")
    problems = stated(task, pool(task))
    prompts, wanted = targets(task, tokenizer, "one {word}, two", problems, "x")
    assert prompts == ["one mouse, two", "one one, two"]
    assert [tokenizer.text(token) for token in wanted] == [" mice", " two"]
    for template in ("one {wrod}, two", "one, two", "{word} {answer}"):
        with pytest.raises(
            UserError, match=r"^x: template .* must have at least one of the table's fields, \{word\}"
        ):
            check_task(task, tokenizer, template, "x")


def table_task(folder, text):
    path = folder / "task.csv"
    path.write_text(text)
    return TableTask(path, "answer")


SAME = "id,word,of,answer\n\n1,mouse,x,mice\n2,one,x,two\n3,mouse,x,mouse\n"
JOINED = "first,second,answer\nab,c,x\na,bc,y\n"


@pytest.mark.parametrize(
    ("text", "template", "rows"),
    [
        (SAME, "one {word}, two", "rows 1 and 3"),
        (SAME, "{of}: {{word}}, two", "rows 1 and 3"),
        (JOINED, "{first}{second}", "'abc': rows 1 and 2"),
    ],
)
def test_two_rows_with_one_prompt_are_refused(tmp_path, text, template, rows):
    """Another column tells the rows apart, but not the prompts."""
    task = table_task(tmp_path, text)
    said = rf"^here: template .* gives two problems the same prompt, .*{rows} of {task.path}; add a field"
    with pytest.raises(UserError, match=said):
        check_wording(task, template, "here")
    check_wording(task, "{id} {word}" if text == SAME else "{first} {second}", "here")


def test_two_texts_with_the_same_tokens_are_refused(tokenizer, tmp_path):
    own = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    own.normalizer = normalizers.NFC()
    task = table_task(tmp_path, "word,answer\ncaf\u00e9,one\ncafe\u0301,two\n")
    check_task(task, tokenizer, "{word}, two", "here")
    with pytest.raises(
        UserError, match=r"^here: the tokenizer gives two problems the same prompt, .*: rows 1 and 2"
    ):
        check_task(task, PromptTokenizer(own, None), "{word}, two", "here")


BOS = "<|begin_of_text|>"


def test_the_text_of_bos_is_refused_for_every_task(raw_tokenizer, tmp_path):
    whole = PromptTokenizer(raw_tokenizer, raw_tokenizer.token_to_id(BOS))
    digits = PromptTokenizer(by_digit(raw_tokenizer), whole.bos)
    limits, said = OperandRange(10, 20, 20, 40), f"^here: .*{re.escape(repr(BOS))} begins every prompt already"
    cells = table_task(tmp_path, f"word,answer\nmouse,mice\n{BOS}one,two\n")
    for task, tokenizer, template in (
        (Arithmetic("a + b", limits), whole, BOS + "{a}+{b}="),
        (Arithmetic("a + b", limits, 1), digits, BOS + "{a}+{b}="),
        (cells, whole, "{word} ="),
    ):
        with pytest.raises(UserError, match=said):
            check_task(task, tokenizer, template, "here")
        with pytest.raises(UserError, match=said):
            targets(task, tokenizer, template, stated(task, pool(task)), "here")
    check_task(Arithmetic("a + b", limits), whole, "{a}+{b}=", "here")
    with pytest.raises(UserError, match=said):
        check_next_token(whole, [f" {BOS}12="], [12], "here")
