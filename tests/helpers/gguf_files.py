"""Small models as GGUF files: real architectures, random weights, tokenizers of the kinds that GGUF knows."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = "<think>"
"""A token that is not special, but found in a text before it is split."""
BOS = 1


def _pre_tokenizer(pre: str) -> pre_tokenizers.PreTokenizer:
    """As in the tokenizer.json of SmolLM2 and Llama 3."""
    if pre == "smollm":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    split = pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, plain])


def train_tokenizer(pre: str, texts: list[str]) -> Tokenizer:
    """A byte-level BPE. With `llama-bpe`, it has every number up to 999, most of three digits without a merge."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = _pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*texts, *(str(n) for n in range(100))], trainer)
    if pre == "llama-bpe":
        vocabulary, merges = parts(tokenizer)
        numbers = [str(n) for n in range(100, 1000) if str(n) not in vocabulary]
        vocabulary |= {number: len(vocabulary) + i for i, number in enumerate(numbers)}
        tokenizer.model = models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True)
        tokenizer.add_special_tokens([AddedToken(one, special=True) for one in SPECIAL])
    tokenizer.add_tokens([AddedToken(ADDED, normalized=False)])
    return tokenizer


def parts(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of a BPE."""
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """Queries or keys as llama.cpp stores Llama's: dimension i of a head next to dimension i + D/2."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def random_model(architecture: str, vocabulary: int, *, tied: bool) -> Any:
    """Hugging Face's model with random weights."""
    import transformers as hf

    local = {"rope_type": "default", "rope_theta": 5000.0}
    sizes = {"vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    sizes |= {"initializer_range": 0.15, "rms_norm_eps": 1e-5, "rope_parameters": local}
    sizes |= {"tie_word_embeddings": tied}
    ropes = {"full_attention": local, "sliding_attention": {**local, "rope_theta": 10_000.0}}
    gemma = {"head_dim": 256, "num_hidden_layers": 7, "sliding_window": 16, "rope_parameters": ropes}
    is_gemma = architecture == "gemma3"
    config = hf.Gemma3TextConfig(**(sizes | gemma)) if is_gemma else hf.LlamaConfig(**sizes)
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            parameter.data = 1 + 0.3 * torch.randn_like(parameter)
        if is_gemma and "norm" in name:
            # bfloat16, as Google's: the sum of 1 and the weight is exact.
            parameter.data = (0.3 * torch.randn_like(parameter)).bfloat16().float()
    return model.eval()


def tensor_names(config: Any) -> Callable[[str], str]:
    """From the name of a weight to that of its tensor in GGUF."""
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[config.model_type.removesuffix("_text")], config.num_hidden_layers)
    return lambda weight: f"{names.get_name(weight.rpartition('.')[0])}.{weight.rpartition('.')[2]}"


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """A model's weights by their names in GGUF, in llama.cpp's arrangement, float32."""
    c, tensors = model.config, {}
    stored_name = tensor_names(c)
    for name, weight in model.named_parameters():
        values = weight.detach().numpy()
        if c.model_type == "llama" and name.endswith("q_proj.weight"):
            values = interleaved(values, c.num_attention_heads)
        if c.model_type == "llama" and name.endswith("k_proj.weight"):
            values = interleaved(values, c.num_key_value_heads)
        if c.model_type == "gemma3_text" and "norm" in name:
            values = values + 1
        tensors[stored_name(name)] = values
    return tensors


def fields_of(model: Any, tokenizer: Tokenizer, pre: str) -> dict[str, Any]:
    """The metadata of a model with its tokenizer."""
    c = model.config
    _, merges = parts(tokenizer)
    tokens = [tokenizer.id_to_token(place) for place in range(tokenizer.get_vocab_size())]
    width = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    gemma, rope = c.model_type == "gemma3_text", c.rope_parameters
    sizes = {
        "block_count": c.num_hidden_layers,
        "context_length": c.max_position_embeddings,
        "embedding_length": c.hidden_size,
        "feed_forward_length": c.intermediate_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
        "attention.layer_norm_rms_epsilon": c.rms_norm_eps,
        "attention.key_length": width,
        "rope.dimension_count": width,
        "rope.freq_base": (rope["full_attention"] if gemma else rope)["rope_theta"],
        "vocab_size": c.vocab_size,
    }
    if gemma:
        sizes |= {"attention.sliding_window": c.sliding_window}
    said = {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": [" ".join(merge) for merge in merges]}
    said |= {"token_type": [3 if token in SPECIAL else 4 if token == ADDED else 1 for token in tokens]}
    said |= {"bos_token_id": BOS, "eos_token_id": 2, "add_bos_token": False}
    architecture = c.model_type.removesuffix("_text")
    fields = {f"{architecture}.{key}": value for key, value in sizes.items()}
    return fields | {f"tokenizer.ggml.{key}": value for key, value in said.items()}


def write_gguf(path: Path, architecture: str, fields: dict[str, Any], tensors: dict) -> Path:
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
