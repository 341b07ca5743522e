"""A GGUF file: the model and tokenizer that it was made of, as a source and as the folder in the results."""

import numpy as np
import pytest
import torch
from gguf_files import BOS, fields_of, make_tokenizer, random_model, tensors_of, write_gguf
from hugging_face import TOKENS, logits_of
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerBase

from conftest import ROOT
from form_invariance import library
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.experiment.model_options import folder_of, load_model
from form_invariance.experiment.options import ModelOptions
from form_invariance.model import tokenizers
from form_invariance.model.files import resolve
from form_invariance.model.gguf import write_folder
from form_invariance.problems.templates import render

PRES = ("smollm", "llama-bpe")
"""Whose rules for splitting texts transformers does not know."""
TEXTS = ["    return  5\n\t12 = x", "½ café 12,345", "Jill's  fish", "<|im_start|>2", "<think>2<|end_of_text|>"]


@pytest.fixture(scope="module")
def texts(templates):
    return TEXTS + [render(template, a, b) for template in templates.all() for a, b in ((226, 68), (7, 999))]


@pytest.fixture(scope="module")
def original(texts):
    return {pre: make_tokenizer(pre, texts) for pre in PRES}


def made(tokenizer, architecture="llama", pre="smollm", *, tied=True):
    model = random_model(architecture, tokenizer.get_vocab_size(), tied=tied)
    return model, fields_of(model, tokenizer, pre), tensors_of(model)


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
    with torch.no_grad():
        theirs = model(TOKENS).logits[:, -1]
    for source in (path, tmp_path / "out"):
        torch.testing.assert_close(logits_of(source), theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("pre", "said", "bos"),
    [("smollm", False, None), ("smollm", True, BOS), ("smollm", None, None), ("llama-bpe", None, BOS)],
)
def test_the_tokenizer_is_the_one_that_the_file_was_made_of(original, texts, tmp_path, pre, said, bos):
    """Prompts begin with BOS as the file says, or as is usual for these rules."""
    _, fields, tensors = made(original[pre], pre=pre)
    fields["tokenizer.ggml.add_bos_token"] = said
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    write_folder(path, tmp_path / "out")
    for source in (path, tmp_path / "out"):
        ours = tokenizers.load_tokenizer(source)
        assert ours.bos == bos
        for text in texts:
            assert ours.encode(text) == original[pre].encode(text, add_special_tokens=False).ids, text


def key(name, value):
    return lambda fields, tensors: fields.update({name: value})


REFUSED = [
    (key("llama.expert_count", 4), "transformers does not read expert_count"),
    (key("llama.attention.value_length", 8), "transformers does not read attention.key_length"),
    (key("llama.block_count", 2), r"transformers does not read blk\.2\.attn_norm\.weight"),
    (lambda _, tensors: tensors.update({"rope_freqs.weight": np.ones(8, np.float32)}), "does not read rope_freqs"),
    (key("tokenizer.ggml.pre", "other"), "transformers does not read tokenizer.ggml.pre 'other'"),
    (key("tokenizer.ggml.bos_token_id", 2**32 - 1), "has no model and tokenizer that transformers reads"),
    (key("llama.attention.head_count_kv", 3), "cannot be read by transformers"),
    (lambda _, tensors: tensors.pop("blk.2.ffn_up.weight"), "'model.layers.2.mlp.up_proj.weight' is missing"),
    *((content, "m.gguf") for content in (b"GGUF", b"no model" * 100, slice(5000), slice(-100))),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_a_file_that_would_give_another_model_is_refused(original, tmp_path, change, words):
    """A change of the fields and tensors, other content, or a part of the file."""
    _, fields, tensors = made(original["smollm"])
    if callable(change):
        change(fields, tensors)
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    if not callable(change):
        path.write_bytes(path.read_bytes()[change] if isinstance(change, slice) else change)
    with pytest.raises(UserError, match=words) as caught:
        write_folder(path, tmp_path / "out")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [one.name for one in tmp_path.iterdir()] == ["m.gguf"]


def test_a_full_disk_leaves_no_folder_without_a_tokenizer(original, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", full)
    _, fields, tensors = made(original["smollm"])
    with pytest.raises(UserError, match="out cannot be written: disk full"):
        write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_as_source(original, tmp_path):
    """Of the first job, of a later one, and of the library; a changed file is noticed."""
    model, fields, tensors = made(original["smollm"])
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    record = tmp_path / "results/m/model_files.parquet"
    assert main(["model-files", f"--model={path}", "--output", str(record)]) == 0
    arguments = ModelOptions(model=str(path), device="cpu", model_files=record)
    assert folder_of(arguments) == tokenizers.imported_folder(record)
    found, run = load_model(arguments), library.load_model(resolve(str(path)), device="cpu")
    for one in (found[0], run.model):
        assert torch.equal(one.layers[1].down, model.model.layers[1].mlp.down_proj.weight)
    assert run.tokenizer.encode("12+7=") == found[1].encode("12+7=")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=f"^{path} has changed since"):
        load_model(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m"])
def test_real_files(tmp_path, name):
    path = ROOT / f"models/{name}.gguf"
    if not path.exists():
        pytest.skip(f"run 'make models/{name}.gguf'")
    write_folder(path, tmp_path / "out")
    tokenizer = tokenizers.load_tokenizer(tmp_path / "out")
    if name.startswith("smollm2"):
        # Digits are split off first, so that the two spaces before one are a token.
        assert tokenizer.tokens("x  5") == ["x", "  ", "5"]
    tokens = torch.from_numpy(tokenizer.encode_batch(["The capital of France is the city of"]))
    assert tokenizer.text(int(logits_of(tmp_path / "out", tokens).argmax())) == " Paris"
