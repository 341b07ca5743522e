"""A GGUF file: the model and tokenizer that it was made of, as a source and as the folder in the results."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf_files import (
    BOS,
    fields_of,
    random_model,
    tensors_of,
    train_tokenizer,
    write_gguf,
)
from safetensors.torch import load_file

from form_invariance import library
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.model import decoder, loading, tokenizers
from form_invariance.model.files import resolve
from form_invariance.model.gguf import write_folder
from form_invariance.problems.templates import render

PRES = ("smollm", "llama-bpe")
"""Whose rules for splitting texts transformers does not know."""
TEXTS = [
    "    return  5\n\t12 = x",
    "½ café 12,345",
    "Jill's  fish, 3",
    "<|im_start|>2+8=<|im_end|>",
    "<think>2",
    " 7",
]


@pytest.fixture(scope="module")
def texts(templates):
    return TEXTS + [render(template, a, b) for template in templates.all() for a, b in ((226, 68), (7, 999))]


@pytest.fixture(scope="module")
def original(texts):
    return {pre: train_tokenizer(pre, texts) for pre in PRES}


def made(tokenizer, architecture="llama", pre="smollm", *, tied=True):
    """A random model, and the metadata and tensors of its GGUF file."""
    model = random_model(architecture, tokenizer.get_vocab_size(), tied=tied)
    return model, fields_of(model, tokenizer, pre), tensors_of(model)


def logits_of(source, tokens):
    model = loading.load(source, prove=True)
    with torch.no_grad():
        return decoder.logits(model, decoder.run_layers(model, decoder.embed(model, tokens)))


@pytest.mark.parametrize(("architecture", "tied"), [("llama", True), ("llama", False), ("gemma3", True)])
def test_float32_weights_return_from_a_file_to_the_bit(original, tmp_path, architecture, tied):
    model, fields, tensors = made(original["smollm"], architecture, tied=tied)
    path = write_gguf(tmp_path / "m.gguf", architecture, fields, tensors)
    write_folder(path, tmp_path / "out")
    weights, expected = load_file(tmp_path / "out/model.safetensors"), dict(model.named_parameters())
    assert weights.keys() == expected.keys()
    assert ("lm_head.weight" in weights) is not tied
    for name, values in weights.items():
        assert torch.equal(values.view(torch.int32), expected[name].data.view(torch.int32)), name
    tokens = torch.arange(3, 21).view(2, 9)
    with torch.no_grad():
        theirs = model(tokens).logits
    for source in (path, tmp_path / "out"):
        torch.testing.assert_close(logits_of(source, tokens), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("pre", PRES)
def test_the_tokenizer_is_the_one_that_the_file_was_made_of(original, texts, tmp_path, pre):
    _, fields, tensors = made(original[pre], pre=pre)
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    write_folder(path, tmp_path / "out")
    for source in (path, tmp_path / "out"):
        ours = tokenizers.load_tokenizer(source)
        assert ours.bos is None
        for text in texts:
            assert ours.encode(text) == original[pre].encode(text).ids, text


@pytest.mark.parametrize(
    ("pre", "said", "bos"), [("smollm", True, BOS), ("smollm", None, None), ("llama-bpe", None, BOS)]
)
def test_texts_begin_with_bos_as_the_file_says(original, tmp_path, pre, said, bos):
    _, fields, tensors = made(original[pre], pre=pre)
    fields["tokenizer.ggml.add_bos_token"] = said
    write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    assert tokenizers.load_tokenizer(tmp_path / "out").bos == bos


def key(name, value):
    return lambda fields, tensors: fields.update({name: value})


def tensor(name, *shape):
    return lambda fields, tensors: tensors.update({name: np.ones(shape, np.float32)})


REFUSED = [
    (key("llama.expert_count", 4), "transformers does not read expert_count"),
    (key("llama.attention.value_length", 8), "transformers does not read attention.key_length"),
    (key("llama.block_count", 2), r"transformers does not read blk\.2\.attn_norm\.weight"),
    (tensor("rope_freqs.weight", 8), "transformers does not read rope_freqs.weight"),
    (key("tokenizer.ggml.pre", "other"), "transformers does not read tokenizer.ggml.pre 'other'"),
    (key("llama.block_count", None), "is not a complete GGUF file"),
    (key("tokenizer.ggml.model", "bert"), "has no model and tokenizer that transformers reads"),
    (key("tokenizer.ggml.bos_token_id", 2**32 - 1), "has no model and tokenizer that transformers reads"),
    (key("tokenizer.ggml.tokens", None), "has no model and tokenizer that transformers reads"),
    (key("llama.attention.head_count_kv", 3), "cannot be read by transformers"),
    (key("llama.embedding_length", 0), "weight 'model.embed_tokens.weight' has shape"),
    (lambda fields, tensors: tensors.pop("blk.2.ffn_up.weight"), "'model.layers.2.mlp.up_proj.weight' is missing"),
]


@pytest.mark.parametrize(("change", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_a_file_that_would_give_another_model_is_refused(original, tmp_path, change, words):
    _, fields, tensors = made(original["smollm"])
    change(fields, tensors)
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    with pytest.raises(UserError, match=words) as caught:
        write_folder(path, tmp_path / "out")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["m.gguf"]


def test_files_that_are_not_whole_gguf_files_are_refused(original, tmp_path):
    _, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    whole = path.read_bytes()
    for content in (b"", b"GGUF", b"no model" * 100, whole[:5000], whole[:-100]):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"m\.gguf"):
            write_folder(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_as_source(original, tmp_path):
    """Of the first job, of a later one, and of the library; a changed file is noticed."""
    model, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    record = tmp_path / "results/m/model_files.parquet"
    assert main(["model-files", f"--model={path}", "--output", str(record)]) == 0
    from test_digests import options

    from form_invariance.experiment.model_options import folder_of, load_model

    arguments = options(path, record)
    assert folder_of(arguments) == tokenizers.imported_folder(record)
    found, tokenizer = load_model(arguments)
    run = library.load_model(resolve(str(path)), device="cpu")
    expected = model.model.layers[1].mlp.down_proj.weight
    for one in (found, run.model):
        assert torch.equal(one.layers[1].down, expected)
    assert run.tokenizer.encode("12+7=") == tokenizer.encode("12+7=")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=f"^{path} has changed since"):
        load_model(options(path, record))


REAL = {"smollm2-135m": "SMOLLM2_GGUF", "qwen2.5-coder-0.5b": "QWEN_GGUF", "gemma3-270m": "GEMMA3_GGUF"}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_files(tmp_path, name):
    path = Path(os.environ.get(REAL[name], Path(__file__).parents[2] / f"models/{name}.gguf"))
    if not path.exists():
        pytest.skip(f"set {REAL[name]} to the file, or run 'make models/{name}.gguf'")
    write_folder(path, tmp_path / "out")
    tokenizer, tokens = tokenizers.load_tokenizer(tmp_path / "out"), None
    if name.startswith("smollm2"):
        # Digits are split off first, so that the two spaces before one are a token.
        assert tokenizer.tokens("x  5") == ["x", "  ", "5"]
    prompt = "The capital of France is the city of"
    tokens = torch.from_numpy(tokenizer.encode_batch([prompt]))
    assert tokenizer.text(int(logits_of(tmp_path / "out", tokens)[0, -1].argmax())) == " Paris"
