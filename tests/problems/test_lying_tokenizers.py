"""Tokenizers that lie: each is read as Hugging Face reads it, or refused in one sentence before a model runs."""

import json
import os
import shutil

import pytest
from configurations import SCHEMA, SMALL, places, with_value
from hostile_values import FUZZ, VALUES, refusal
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.model import tokenizers
from form_invariance.model.files import PACKAGED
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import check_template
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.census.compute import take_census
from form_invariance.workflow import config_check

HONEST = json.loads((PACKAGED / "embedded-shared/tokenizer.json").read_text())
OPTIONS = json.loads((PACKAGED / "embedded-shared/tokenizer_config.json").read_text())
VOCABULARY = HONEST["model"]["vocab"]
SIZE = json.loads((PACKAGED / "embedded-shared/config.json").read_text())["vocab_size"]
LIMITS = OperandRange(6, 12, 3, 40)
PROMPTS = ["12+7=", "6+12=", "a = 7\nb = 8\nprint(a + b)  # ", "How many apples does Jack have now? Answer: "]


@pytest.fixture
def folder(packaged_copy):
    return packaged_copy


def lying(*path, value):
    """The tokenizer with one value changed."""
    return with_value(HONEST, path, value)


def write(folder, tokenizer):
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def added(token, **flags):
    """A tokenizer with one more added token: one of its vocabulary, or a new one in the place of 998."""
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    vocabulary = dict(VOCABULARY)
    if token not in vocabulary:
        vocabulary[token] = vocabulary.pop("998")
    one = {**usual, **flags, "id": vocabulary[token], "content": token}
    return {
        **HONEST,
        "added_tokens": [*HONEST["added_tokens"], one],
        "model": {**HONEST["model"], "vocab": vocabulary},
    }


def around(before, after):
    """A post-processor that puts tokens around every text."""
    names = {token: {"id": token, "ids": [VOCABULARY[token]], "tokens": [token]} for token in before + after}
    pieces = {token: {"SpecialToken": {"id": token, "type_id": 0}} for token in names}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    single = [*(pieces[token] for token in before), text, *(pieces[token] for token in after)]
    return {"type": "TemplateProcessing", "single": single, "pair": [text], "special_tokens": names}


def replacing(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def check(folder):
    config_check.check(with_value(SMALL, "models/m/source", str(folder)), SCHEMA)


def hugging_face(folder, text):
    """What Hugging Face makes of a prompt, without an end that it may put."""
    ids = AutoTokenizer.from_pretrained(folder)(text)["input_ids"]
    return ids[:-1] if ids[-1] == VOCABULARY["<|end_of_text|>"] else ids


def ours(folder, text):
    return tokenizers.load_tokenizer(folder).encode_batch([text])[0].tolist()


BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
CUT = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
FILL = {"direction": "Left", "pad_to_multiple_of": None, "pad_id": 5, "pad_type_id": 0, "pad_token": "x"}
BELIEVED = {
    "honest": HONEST,
    "cuts prompts": lying("truncation", value=CUT),
    "fills prompts up": lying("padding", value={**FILL, "strategy": {"Fixed": 40}}),
    "fills up to the longest": lying("padding", value={**FILL, "strategy": "BatchLongest"}),
    "ends every text": lying("post_processor", value=around([BOS], [EOS])),
    "ends and does not open": lying("post_processor", value=around([], [EOS])),
    "has no post-processor": lying("post_processor", value=None),
    "unicode digits": lying("normalizer", value={"type": "NFKC"}),
    "an operand is special": added("7", special=True, single_word=True),
    "a piece of the template is added": added(" apples does"),
    "an added token takes the space after it": added(" Answer:", rstrip=True),
}


@pytest.mark.parametrize("name", BELIEVED)
def test_read_as_hugging_face_reads_it(folder, name):
    write(folder, BELIEVED[name])
    for text in PROMPTS:
        assert ours(folder, text) == hugging_face(folder, text)
    check(folder)


def test_merges_are_not_left_to_chance(folder):
    expected = ours(folder, PROMPTS[2])
    write(folder, lying("model", "dropout", value=0.9))
    assert all(ours(folder, PROMPTS[2]) == expected for _ in range(20))
    check(folder)


RESERVED = "Ġtotal"
TOKEN = {"content": RESERVED, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
SPECIAL = {**TOKEN, "special": True}
WITHOUT_BOS = [VOCABULARY[RESERVED], VOCABULARY["12"]]
WITH_BOS = [VOCABULARY[BOS], *WITHOUT_BOS]
CONFIG = "tokenizer_config.json"
OTHER_FILES = {
    "added_tokens_decoder": ({CONFIG: {"added_tokens_decoder": {str(VOCABULARY[RESERVED]): SPECIAL}}}, WITH_BOS),
    "additional_special_tokens": ({CONFIG: {"additional_special_tokens": [RESERVED]}}, WITH_BOS),
    "extra_special_tokens": ({CONFIG: {"extra_special_tokens": {"some_token": RESERVED}}}, WITH_BOS),
    "eos_token": ({CONFIG: {"eos_token": RESERVED}}, WITH_BOS),
    "added_tokens.json": ({"added_tokens.json": {RESERVED: VOCABULARY[RESERVED]}}, WITH_BOS),
    "special_tokens_map.json": ({"special_tokens_map.json": {"pad_token": TOKEN}}, WITH_BOS),
    "split_special_tokens": ({CONFIG: {"pad_token": RESERVED, "split_special_tokens": True}}, None),
    "add_prefix_space": ({CONFIG: {"add_prefix_space": True}}, None),
    "add_bos_token: false": ({CONFIG: {"add_bos_token": False}}, None),
    "another class": ({CONFIG: {"tokenizer_class": "GPT2Tokenizer", "pad_token": RESERVED}}, None),
    "another class with a prefix space": (
        {CONFIG: {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}},
        None,
    ),
    "no options": ({}, None),
}


@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize("name", OTHER_FILES)
def test_files_next_to_tokenizer_json_are_read(folder, name, opens):
    """As AutoTokenizer reads it, from a folder and in memory."""
    files, expected = OTHER_FILES[name]
    write(folder, HONEST if opens else lying("post_processor", value=None))
    (folder / CONFIG).write_text(json.dumps({**OPTIONS, "add_bos_token": True, **files.get(CONFIG, {})}))
    for other in set(files) - {CONFIG}:
        (folder / other).write_text(json.dumps(files[other]))
    if not files:
        (folder / CONFIG).unlink()
    theirs = AutoTokenizer.from_pretrained(folder)
    in_memory = tokenizers.of_object(theirs, SIZE)
    for text in (f"{RESERVED}12", f"1+{RESERVED} ", "12+7=", " a = 7"):
        ids = theirs(text)["input_ids"]
        assert ours(folder, text) == in_memory.encode_batch([text])[0].tolist() == ids
    if expected:
        assert ours(folder, f"{RESERVED}12") == (WITH_BOS if opens else WITHOUT_BOS)


def test_the_package_reads_its_own_tokenizers_as_transformers_does(tmp_path):
    """They are read without transformers."""
    for source in sorted(PACKAGED.glob("*/tokenizer.json")):
        copy = shutil.copytree(source.parent, tmp_path / source.parent.name)
        plain, found = (tokenizers.load_tokenizer(folder) for folder in (source.parent, copy))
        assert plain.tokenizer.to_str() == found.tokenizer.to_str()
        assert (plain.bos, plain.vocabulary) == (found.bos, found.vocabulary)


def test_the_kept_tokenizer_is_the_same(folder):
    """With a setting that tokenizer.json cannot hold."""
    (folder / CONFIG).write_text(json.dumps({**OPTIONS, "pad_token": RESERVED, "split_special_tokens": True}))
    record = folder.parent / "model_files.parquet"
    assert main(["model-files", f"--model={folder}", "--output", str(record)]) == 0
    kept, read = tokenizers.load_kept(folder, record), tokenizers.load_tokenizer(folder)
    for text in (*PROMPTS, f"{RESERVED}12"):
        assert kept.encode(text) == read.encode(text)
    assert len(kept.encode(f"{RESERVED}12")) > 2
    assert (kept.bos, kept.vocabulary, kept.name) == (read.bos, read.vocabulary, read.name)


UNKNOWN = {"type": "WordLevel", "unk_token": "[UNK]"}
EXCHANGED = [replacing("7", "x"), replacing("8", "7"), replacing("x", "8")]
ONE_TOKEN_EACH = "as the same token"
NEXT_TOKEN = "must be the next token after the prompt"
REFUSED = {
    "a token beyond the model": (
        lying("model", "vocab", "12", value=10**7),
        f"encodes '12' with token 10000000, but the model has {SIZE} tokens;",
    ),
    "a BOS beyond the model": (
        lying("post_processor", "special_tokens", BOS, "ids", value=[10**7]),
        f"the BOS token is 10000000, but the model has {SIZE} tokens",
    ),
    "two numbers with one token": (
        lying("model", "vocab", "12", value=VOCABULARY["13"]),
        f"the numbers 12 and 13 {ONE_TOKEN_EACH}",
    ),
    "all numbers unknown": (
        lying("model", value={**UNKNOWN, "vocab": {"[UNK]": 0}}),
        f"the numbers 3 and 4 {ONE_TOKEN_EACH}",
    ),
    "a text that it cannot encode": (
        lying("model", value={**UNKNOWN, "vocab": {"a": 0}}),
        r"cannot encode '0': .*Missing \[UNK\] token",
    ),
    "a number that it cannot encode": (
        lying("model", value={**UNKNOWN, "vocab": {"0": 0, "3": 3}}),
        r"cannot encode texts such as '3': .*Missing \[UNK\] token",
    ),
    "every digit a token": (
        lying("pre_tokenizer", value={"type": "Digits", "individual_digits": True}),
        "number 10 into several tokens.* 0 to 9 are one token each",
    ),
    "digits of another script": (lying("normalizer", value=replacing("7", "٧")), "the number 7 into"),
    "digits exchanged": (
        lying("normalizer", value={"type": "Sequence", "normalizers": EXCHANGED}),
        "encodes the number 7 as a token that decodes to '8'",
    ),
    "a decoder of its own mind": (
        lying("decoder", value={"type": "Sequence", "decoders": [HONEST["decoder"], replacing("7", "8")]}),
        "encodes the number 7 as a token that decodes to '8'",
    ),
    "no spaces at the end": (
        lying("normalizer", value={"type": "Strip", "strip_left": False, "strip_right": True}),
        rf"formats\.code\.templates\.addition .*{NEXT_TOKEN}",
    ),
    "an answer joined to the prompt": (added("=17"), rf"formats\.symbolic.*{NEXT_TOKEN}"),
    "an operand swallowed": (added("7+"), r"formats\.symbolic.* 6\.\.12 is one token in place of \{a\}"),
    "several tokens before each text": (
        lying("post_processor", value=around([BOS, EOS], [])),
        r"adds 2 tokens before every text, \[0, 1\]",
    ),
    "a post-processor without its token": (
        lying("post_processor", "special_tokens", value={}),
        "cannot encode '0': no entry found",
    ),
    "a normalizer that panics": (
        lying("normalizer", value={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        "cannot be read as a tokenizer: .*precompiled_charsmap",
    ),
    "a pre-tokenizer that panics": (
        lying("pre_tokenizer", value={"type": "FixedLength", "length": 0}),
        "cannot encode '0': chunk size",
    ),
    "an expression that is none": (
        lying("normalizer", value=replacing("(", "")),
        "cannot be read as a tokenizer: Oniguruma error",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_a_job_starts(folder, name):
    tokenizer, sentence = REFUSED[name]
    write(folder, tokenizer)
    with pytest.raises(UserError, match=sentence) as caught:
        check(folder)
    said = str(caught.value)
    assert "\n" not in said
    path = folder / "tokenizer.json"
    keys = f"models.m.source: {path}", f"operands with the tokenizer of m: {path}", "formats."
    assert said.startswith(tuple(f"config key {key}" for key in keys))


@pytest.mark.parametrize("text", ["", "[", "null", "{}", "\x00", "[" * 10**5, '{"version": "1.0", "model": {}}'])
def test_a_file_that_is_no_tokenizer(folder, text):
    (folder / "tokenizer.json").write_text(text)
    with pytest.raises(UserError, match=r"tokenizer\.json cannot be read as a tokenizer: ."):
        check(folder)


def test_a_huge_file_is_not_read(folder, monkeypatch):
    with (folder / "tokenizer.json").open("ab") as file:
        file.truncate(tokenizers.LARGEST + 1)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", pytest.fail)
    with pytest.raises(UserError, match=r"tokenizer\.json has 256 MB"):
        check(folder)


def test_an_interrupt_is_no_fault_of_the_file(folder, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tokenizers.load_tokenizer(folder)


def test_a_folder_or_a_pipe_in_place_of_the_file(folder):
    path = folder / "tokenizer.json"
    for make in (os.mkfifo, os.mkdir):
        path.unlink()
        make(path)
        with pytest.raises(UserError, match=r"has no tokenizer\.json"):
            check(folder)


def test_a_template_that_opens_with_bos_itself():
    tokenizer = tokenizers.load_tokenizer(PACKAGED / "embedded-shared")
    with pytest.raises(UserError, match=r"here: .*'<\|begin_of_text\|>' begins every prompt already"):
        check_template(tokenizer, BOS + "{a}+{b}=", "here", LIMITS)


def test_a_token_that_cannot_be_decoded(folder):
    with pytest.raises(UserError, match=r"tokenizer\.json cannot decode the token -1: "):
        tokenizers.load_tokenizer(folder).text(-1)


IN_SOME_PAIRS = {
    "operands joined": (
        added("7+8"),
        r"splits '7\+8=' as \['7\+8', '='\]: other tokens than the operands' differ from '6\+6='",
    ),
    "operand and answer joined": (added("8=15"), r"splits '7\+8=15' as .*: the answer is not the next token"),
    "operands exchanged": (
        lying("normalizer", value=replacing(r"^7\+8", "8+7")),
        r"splits '7\+8=' as \['8', '\+', '7', '='\]: other tokens than the operands'",
    ),
}


@pytest.mark.parametrize("name", IN_SOME_PAIRS)
def test_what_only_some_pairs_show_is_refused_before_the_model_runs(folder, name):
    """Each operand alone, and each answer after one prompt, is as it should be."""
    tokenizer, sentence = IN_SOME_PAIRS[name]
    write(folder, tokenizer)
    check(folder)
    arguments = (tokenizers.load_tokenizer(folder), "{a}+{b}=", "addition", Arithmetic("a + b", LIMITS), None, 0)
    with pytest.raises(UserError, match=rf"template of addition: .*tokenizer\.json {sentence}") as caught:
        take_census(None, *arguments)
    assert "\n" not in str(caught.value)


PLAIN = {key: value for key, value in HONEST.items() if key != "added_tokens"}
PLAIN["model"] = {key: value for key, value in HONEST["model"].items() if key not in ("vocab", "merges")}


@FUZZ
@given(st.sampled_from(sorted(places(PLAIN), key=str)), VALUES)
def test_any_value_anywhere(tmp_path_factory, path, value):
    folder = tmp_path_factory.mktemp("any") / "model"
    shutil.copytree(PACKAGED / "embedded-shared", folder)
    write(folder, lying(*path, value=value))
    refusal(check, folder)
    shutil.rmtree(folder)
