"""What an operator asks: prompts filled from fields, and the first token of an answer."""

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from form_invariance.errors import UserError
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.problems.tasks import (
    Arithmetic,
    TableTask,
    check_task,
    fill,
    first_tokens,
    pool,
    stated,
    targets,
)

WORDS = [
    "two",
    "Answer",
    ":",
    '"',
    "Ġmice",
    "mice",
    "Ġm",
    "m",
    "Ġ",
    "ouses",
    "Ġone",
    "mouse",
    "Ġmouse",
    "=",
    "one",
]


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level tokenizer whose words may begin with a space, as in GPT-2; `mouses` are two tokens."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {text: place for place, text in enumerate(dict.fromkeys([*letters, *WORDS]))}
    merges = []
    for word in ("Ġmice", "Ġmouse", "Ġone", "Ġtwo", "Answer", "ouses"):
        whole = word[0]
        for letter in word[1:]:
            vocabulary.setdefault(whole + letter, len(vocabulary))
            merges.append((whole, letter))
            whole += letter
    for word in ("mice", "mouse", "two", "one"):
        whole = word[0]
        for letter in word[1:]:
            vocabulary.setdefault(whole + letter, len(vocabulary))
            merges.append((whole, letter))
            whole += letter
    one = Tokenizer(models.BPE(vocabulary, list(dict.fromkeys(merges))))
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    from tokenizers import decoders

    one.decoder = decoders.ByteLevel()
    return PromptTokenizer(one, None)


def test_fields_are_filled_once():
    assert fill("{a} {b} {a}", {"a": "{b}", "b": "x"}) == "{b} x {b}"
    assert fill("{other} {a}", {"a": "1"}) == "{other} 1"


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


def test_arithmetic_is_asked_with_its_operands(raw_tokenizer):
    own = PromptTokenizer(raw_tokenizer, None)
    task = Arithmetic("a + b", OperandRange(1, 20, 1, 40))
    problems = stated(task, pool(task)).head(5)
    prompts, wanted = targets(task, own, "{a}+{b}=", problems, "x")
    assert prompts == [f"{a}+{b}=" for a, b in zip(problems["a"], problems["b"], strict=True)]
    assert np.array_equal(wanted, own.number_tokens(problems["answer"].to_numpy()))
    assert problems["target"].tolist() == [str(answer) for answer in problems["answer"]]
