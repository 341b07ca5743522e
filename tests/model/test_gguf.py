"""A GGUF file: the model and tokenizer that it was made of, as a source and as the folder in the results."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers as hf
from hugging_face import TOKENS, logits_of
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from embedded_training.tokenizer import build_tokenizer
from form_invariance import library
from form_invariance.cli import main
from form_invariance.errors import UserError
from form_invariance.experiment.model_options import folder_of, load_model
from form_invariance.experiment.options import ModelOptions
from form_invariance.model import tokenizers
from form_invariance.model.files import resolve
from form_invariance.model.gguf import write_folder
from form_invariance.problems.templates import render

PRES = ("smollm", "llama-bpe", "pixtral")
"""Names of rules for splitting texts that transformers does not know."""
TEXTS = ["    return  5\n\t12 = x", "½ café 12,345", "Jill's  fish", "<|im_start|>2", "<think>2<|end_of_text|>"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BOS = 0


def make_tokenizer(pre: str, texts: list[str]) -> Tokenizer:
    """A byte-level BPE that splits texts as SmolLM2's or Llama 3's."""
    if pre != "smollm":
        tokenizer = build_tokenizer(texts)
    else:
        digits = pre_tokenizers.Digits(individual_digits=True)
        plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, plain])
        tokenizer.decoder = decoders.ByteLevel()
        options = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
        trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, **options)
        tokenizer.train_from_iterator([*texts, *(str(n) for n in range(100))], trainer)
    # This token is not special, but is found in a text before the text is split.
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def random_model(architecture: str, vocabulary: int, *, tied: bool, biased: bool = False):
    local = {"rope_type": "default", "rope_theta": 5000.0}
    sizes = {"vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    sizes |= {"initializer_range": 0.15, "rms_norm_eps": 1e-5}
    sizes |= {"rope_parameters": local, "tie_word_embeddings": tied}
    if biased:
        sizes |= {"attention_bias": True, "mlp_bias": True}
    ropes = {"full_attention": local, "sliding_attention": {**local, "rope_theta": 10_000.0}}
    gemma = {"head_dim": 256, "num_hidden_layers": 7, "sliding_window": 16, "rope_parameters": ropes}
    is_gemma = architecture == "gemma3"
    configs = {"gemma3": hf.Gemma3TextConfig, "llama": hf.LlamaConfig, "qwen2": hf.Qwen2Config}
    config = configs[architecture](**(sizes | (gemma if is_gemma else {})))
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data = torch.randn_like(parameter)
        if "norm" in name:
            # Gemma's norms are bfloat16, as Google's are: 1 + weight is exact.
            noise = 0.3 * torch.randn_like(parameter)
            parameter.data = noise.bfloat16().float() if is_gemma else 1 + noise
    return model.eval()


def tensors_of(model) -> dict[str, np.ndarray]:
    """A model's weights by their names in GGUF, in llama.cpp's arrangement, float32."""
    c, tensors = model.config, {}
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[c.model_type.removesuffix("_text")], c.num_hidden_layers)
    for name, weight in model.named_parameters():
        values = weight.detach().numpy()
        heads = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}.get(name.split(".")[-2])
        if c.model_type == "llama" and heads:
            # llama.cpp stores dimension i of a head next to dimension i + D/2.
            values = values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        if c.model_type == "gemma3_text" and "norm" in name:
            values = values + 1
        module, _, part = name.rpartition(".")
        tensors[f"{names.get_name(module)}.{part}"] = values
    return tensors


def fields_of(model, tokenizer: Tokenizer, pre: str) -> dict:
    c, merges = model.config, json.loads(tokenizer.to_str())["model"]["merges"]
    tokens = [tokenizer.id_to_token(place) for place in range(tokenizer.get_vocab_size())]
    added = {place: 3 if token.special else 4 for place, token in tokenizer.get_added_tokens_decoder().items()}
    width = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    gemma, rope = c.model_type == "gemma3_text", c.rope_parameters
    sizes = {"block_count": c.num_hidden_layers, "context_length": c.max_position_embeddings}
    sizes |= {"embedding_length": c.hidden_size, "feed_forward_length": c.intermediate_size}
    sizes |= {"attention.head_count": c.num_attention_heads, "attention.head_count_kv": c.num_key_value_heads}
    sizes |= {"attention.layer_norm_rms_epsilon": c.rms_norm_eps, "vocab_size": c.vocab_size}
    sizes |= dict.fromkeys(("attention.key_length", "rope.dimension_count"), width)
    sizes |= {"rope.freq_base": (rope["full_attention"] if gemma else rope)["rope_theta"]}
    if gemma:
        sizes |= {"attention.sliding_window": c.sliding_window}
    said = {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": [" ".join(merge) for merge in merges]}
    said |= {"token_type": [added.get(place, 1) for place in range(len(tokens))]}
    said |= {"bos_token_id": BOS, "eos_token_id": 1, "add_bos_token": False}
    architecture = c.model_type.removesuffix("_text")
    fields = {f"{architecture}.{key}": value for key, value in sizes.items()}
    return fields | {f"tokenizer.ggml.{key}": value for key, value in said.items()}


def write_gguf(path: Path, architecture: str, fields: dict, tensors: dict) -> Path:
    """Write a GGUF file in float32; the value None leaves a key out."""
    add = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string", list: "add_array"}
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in fields.items():
        if value is not None:
            getattr(writer, add[type(value)])(key, value)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def texts(templates):
    return TEXTS + [render(template, a, b) for template in templates.all() for a, b in ((226, 68), (7, 999))]


@pytest.fixture(scope="module")
def original(texts):
    return {pre: make_tokenizer(pre, texts) for pre in PRES}


def made(tokenizer, architecture="llama", pre="smollm", **changes):
    model = random_model(architecture, tokenizer.get_vocab_size(), **{"tied": True, **changes})
    return model, fields_of(model, tokenizer, pre), tensors_of(model)


@pytest.mark.parametrize(
    ("architecture", "tied", "biased"),
    [*(("llama", *one) for one in ((True, False), (False, False), (True, True))), ("gemma3", True, False)],
)
def test_float32_weights_return_from_a_file_to_the_bit(original, tmp_path, architecture, tied, biased):
    model, fields, tensors = made(original["smollm"], architecture, tied=tied, biased=biased)
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
    [
        ("smollm", False, None),
        ("smollm", True, BOS),
        ("smollm", None, None),
        *((pre, None, BOS) for pre in PRES[1:]),
    ],
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


@pytest.mark.parametrize(("said", "first"), [(False, "Th"), (True, "▁Th"), (None, "▁Th")])
def test_sentencepiece_begins_with_a_space_unless_the_file_says_no(original, tmp_path, said, first):
    _, fields, tensors = made(original["smollm"])
    tokens = ["<unk>", "<s>", "</s>", "▁", "T", "h", "Th", "▁T", "▁Th"]
    tokens += [f"<0x{byte:02X}>" for byte in range(len(fields["tokenizer.ggml.tokens"]) - len(tokens))]
    said = {"model": "llama", "pre": "default", "tokens": tokens, "merges": None, "add_space_prefix": said}
    said |= {"scores": [-float(place) for place in range(len(tokens))]}
    said |= {"token_type": [2, 3, 3] + [1] * (len(tokens) - 3)}
    fields |= {f"tokenizer.ggml.{key}": value for key, value in said.items()}
    path = write_gguf(tmp_path / "m.gguf", "llama", fields, tensors)
    write_folder(path, tmp_path / "out")
    for source in (path, tmp_path / "out"):
        tokenizer = tokenizers.load_tokenizer(source)
        assert [tokens[one] for one in tokenizer.encode("Th T")] == [first, "▁T"]


def key(name, value):
    return lambda fields, tensors: fields.update({name: value})


UNREAD = {"ggml.add_space_prefix": True, "ggml.remove_extra_whitespaces": True, "ggml.precompiled_charsmap": [1]}
UNREAD |= {"ggml.model": "t5", "ggml.normalizer": "lower", "huggingface.json": "{}"}
REFUSED = [
    (key("llama.expert_count", 4), "transformers does not read expert_count"),
    (key("split.count", 2), "is a part of a model; join all parts with llama.cpp's 'llama-gguf-split --merge'"),
    (
        lambda _, tensors: tensors.update({"blk.0.attn_q.scale": np.ones(8, np.float32)}),
        r"not read blk\.0\.attn_q",
    ),
    *((key(f"tokenizer.{name}", value), f"does not read tokenizer.{name}") for name, value in UNREAD.items()),
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
    """`change` alters the fields and tensors, replaces the content, or cuts the file."""
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


def test_a_part_of_a_model_and_of_its_heads_rotated_are_refused(original, tmp_path):
    """A part without the unembedding would be read as a model with tied embeddings."""
    _, fields, tensors = made(original["smollm"], tied=False)
    del tensors["output.weight"]
    part = write_gguf(tmp_path / "m-00001-of-00002.gguf", "llama", fields, tensors)
    with pytest.raises(UserError, match=r"00001-of-00002\.gguf is a part of a model"):
        logits_of(part)
    logits_of(part.rename(tmp_path / "m-00001-of-00001.gguf"))
    _, fields, tensors = made(original["smollm"], "qwen2")
    fields |= {"qwen2.rope.dimension_count": 8, "qwen2.attention.key_length": None}
    path = write_gguf(tmp_path / "m.gguf", "qwen2", fields, tensors)
    with pytest.raises(UserError, match=r"does not read rope\.dimension_count"):
        logits_of(path)


def test_a_full_disk_leaves_no_folder_without_a_tokenizer(original, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(hf.PreTrainedTokenizerBase, "save_pretrained", full)
    _, fields, tensors = made(original["smollm"])
    with pytest.raises(UserError, match="out cannot be written: disk full"):
        write_folder(write_gguf(tmp_path / "m.gguf", "llama", fields, tensors), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_commands_and_the_library_read_a_file_and_notice_its_change(original, tmp_path):
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
