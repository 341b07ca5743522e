"""Tokenizers that lie: each is read as Hugging Face reads it, or refused in one sentence before a model runs."""

import json
import re

import pytest
from configurations import SCHEMA, SMALL, with_value
from hostile_values import refusal
from transformers import AutoTokenizer

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.model import tokenizers
from form_invariance.model.files import PACKAGED
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.tasks import Arithmetic
from form_invariance.stages.census.compute import take_census
from form_invariance.workflow import config_check

NAMES = ("tokenizer.json", "tokenizer_config.json", "config.json")
HONEST, OPTIONS, MODEL = (json.loads((PACKAGED / "embedded-shared" / name).read_text()) for name in NAMES)
VOCABULARY, SIZE = HONEST["model"]["vocab"], MODEL["vocab_size"]
PROMPTS = ["12+7=", "a = 7\nb = 8\nprint(a + b)  # ", "How many apples does Jack have now? Answer: "]
BOS, EOS, RESERVED = "<|begin_of_text|>", "<|end_of_text|>", "Ġtotal"
CONFIG = "tokenizer_config.json"


def lying(*path, value):
    return with_value(HONEST, path, value)


def write(folder, tokenizer):
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def added(token, **flags):
    """A tokenizer with one more added token: one of its vocabulary, or a new one that replaces 998."""
    usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    vocabulary = dict(VOCABULARY)
    if token not in vocabulary:
        vocabulary[token] = vocabulary.pop("998")
    one = {**usual, **flags, "id": vocabulary[token], "content": token}
    model = {**HONEST["model"], "vocab": vocabulary}
    return {**HONEST, "added_tokens": [*HONEST["added_tokens"], one], "model": model}


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


def ours(folder, text):
    return tokenizers.load_tokenizer(folder).encode_batch([text])[0].tolist()


CUT = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
FILL = {"direction": "Left", "pad_to_multiple_of": None, "pad_id": 5, "pad_type_id": 0, "pad_token": "x"}
BELIEVED = [
    lying("truncation", value=CUT),
    lying("padding", value={**FILL, "strategy": {"Fixed": 40}}),
    lying("post_processor", value=around([BOS], [EOS])),
    lying("post_processor", value=None),
    added("7", special=True, single_word=True),
]


@pytest.mark.parametrize("tokenizer", BELIEVED, ids=["cut", "filled", "ended", "bare", "special operand"])
def test_an_odd_tokenizer_is_read_as_hugging_face_reads_it(packaged_copy, tokenizer):
    """Only an EOS that the tokenizer puts after a text is dropped."""
    folder = write(packaged_copy, tokenizer)
    theirs = AutoTokenizer.from_pretrained(folder)
    for text in PROMPTS:
        ids = theirs(text)["input_ids"]
        assert ours(folder, text) == (ids[:-1] if ids[-1] == VOCABULARY[EOS] else ids)
    check(folder)


def test_merges_are_not_left_to_chance(packaged_copy):
    expected = ours(packaged_copy, PROMPTS[1])
    write(packaged_copy, lying("model", "dropout", value=0.9))
    assert all(ours(packaged_copy, PROMPTS[1]) == expected for _ in range(20))


SPLIT = {"pad_token": RESERVED, "split_special_tokens": True}
PREFIXED = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}


@pytest.mark.parametrize("options", [None, {"add_bos_token": False}, SPLIT, PREFIXED])
def test_files_next_to_tokenizer_json_are_read(packaged_copy, options):
    """Oracle: AutoTokenizer. The tokenizer is read from a folder and in memory."""
    (packaged_copy / CONFIG).write_text(json.dumps({**OPTIONS, "add_bos_token": True, **(options or {})}))
    if options is None:
        (packaged_copy / CONFIG).unlink()
    theirs = AutoTokenizer.from_pretrained(packaged_copy)
    in_memory = tokenizers.of_object(theirs, SIZE)
    for text in (f"{RESERVED}12", f"1+{RESERVED} ", "12+7=", " a = 7"):
        assert ours(packaged_copy, text) == in_memory.encode_batch([text])[0].tolist() == theirs(text)["input_ids"]


def test_the_kept_tokenizer_is_the_same(packaged_copy):
    """Its settings include one that tokenizer.json cannot hold."""
    folder, record = packaged_copy, packaged_copy.parent / "model_files.parquet"
    (folder / CONFIG).write_text(json.dumps({**OPTIONS, **SPLIT}))
    assert main(["model-files", f"--model={folder}", "--output", str(record)]) == 0
    kept, read = tokenizers.load_kept(folder, record), tokenizers.load_tokenizer(folder)
    for text in (*PROMPTS, f"{RESERVED}12"):
        assert kept.encode(text) == read.encode(text)
    assert len(kept.encode(f"{RESERVED}12")) > 2
    assert (kept.bos, kept.vocabulary, kept.name) == (read.bos, read.vocabulary, read.name)


UNKNOWN = {"type": "WordLevel", "unk_token": "[UNK]"}
EXCHANGED = {"type": "Sequence", "normalizers": [replacing(*two) for two in ("7x", "87", "x8")]}
DIGITS = {"type": "Digits", "individual_digits": True}
REFUSED = [
    (lying("model", "vocab", "12", value=1344), "encodes '12' with token 1344, but the"),
    (lying("post_processor", "special_tokens", BOS, "ids", value=[1344]), "the BOS token is 1344, but the"),
    (lying("post_processor", value=around([BOS, EOS], [])), r"adds 2 tokens before every text, \[0, 1\]"),
    (lying("model", "vocab", "12", value=VOCABULARY["13"]), "the numbers 12 and 13 as the same token"),
    (lying("model", value={**UNKNOWN, "vocab": {"0": 0, "3": 3}}), "cannot encode texts such as '3': .*Missing"),
    (lying("pre_tokenizer", value=DIGITS), "number 10 into several tokens.* 0 to 9 are one token each"),
    (lying("normalizer", value=replacing("7", "٧")), "the number 7 into"),
    (lying("normalizer", value=EXCHANGED), "a token that decodes to '8'"),
    # This one panics in Rust.
    (lying("pre_tokenizer", value={"type": "FixedLength", "length": 0}), "cannot encode '0': chunk size"),
    ({}, r"cannot be read as a tokenizer: ."),
]


@pytest.mark.parametrize(("tokenizer", "sentence"), REFUSED, ids=[sentence[:30] for _, sentence in REFUSED])
def test_a_lying_tokenizer_is_refused_before_a_job_starts(packaged_copy, tokenizer, sentence):
    _, said = refusal(check, write(packaged_copy, tokenizer))
    assert re.search(sentence, said), said
    path = packaged_copy / "tokenizer.json"
    keys = f"models.m.source: {path}", f"operands with the tokenizer of m: {path}", "formats."
    assert said.startswith(tuple(f"config key {key}" for key in keys))


IN_SOME_PAIRS = {
    "7+8": r"splits '7\+8=' as \['7\+8', '='\]: other tokens than the operands' differ from '6\+6='",
    "8=15": r"splits '7\+8=15' as .*the answer must be the next token",
}


@pytest.mark.parametrize("token", IN_SOME_PAIRS)
def test_what_only_some_pairs_show_is_refused_before_the_model_runs(packaged_copy, token):
    """Each operand alone, and each answer after one prompt, is encoded as it should be."""
    check(write(packaged_copy, added(token)))
    tokenizer, task = tokenizers.load_tokenizer(packaged_copy), Arithmetic("a + b", OperandRange(6, 12, 3, 40))
    sentence = rf"^template of addition: [^\n]*tokenizer\.json {IN_SOME_PAIRS[token]}[^\n]*$"
    with pytest.raises(UserError, match=sentence):
        take_census(None, tokenizer, "{a}+{b}=", "addition", task, None, 0)
