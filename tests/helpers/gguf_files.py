"""Small models as GGUF files: real architectures, random weights, tokenizers of the kinds that GGUF knows."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from embedded_training.tokenizer import build_tokenizer

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BOS = 0


def make_tokenizer(pre: str, texts: list[str]) -> Tokenizer:
    """A byte-level BPE that splits texts as SmolLM2's or Llama 3's."""
    if pre == "llama-bpe":
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
    # A token that is not special, but found in a text before it is split.
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    return tokenizer


def random_model(architecture: str, vocabulary: int, *, tied: bool) -> Any:
    import transformers as hf

    local = {"rope_type": "default", "rope_theta": 5000.0}
    sizes = {"vocab_size": vocabulary, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
    sizes |= {"initializer_range": 0.15, "rms_norm_eps": 1e-5}
    sizes |= {"rope_parameters": local, "tie_word_embeddings": tied}
    ropes = {"full_attention": local, "sliding_attention": {**local, "rope_theta": 10_000.0}}
    gemma = {"head_dim": 256, "num_hidden_layers": 7, "sliding_window": 16, "rope_parameters": ropes}
    is_gemma = architecture == "gemma3"
    config = hf.Gemma3TextConfig(**(sizes | gemma)) if is_gemma else hf.LlamaConfig(**sizes)
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            # Gemma's in bfloat16, as Google's: the sum of 1 and the weight is exact.
            noise = 0.3 * torch.randn_like(parameter)
            parameter.data = noise.bfloat16().float() if is_gemma else 1 + noise
    return model.eval()


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """A model's weights by their names in GGUF, in llama.cpp's arrangement, float32."""
    c, tensors = model.config, {}
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(numbers[c.model_type.removesuffix("_text")], c.num_hidden_layers)
    for name, weight in model.named_parameters():
        values = weight.detach().numpy()
        heads = {"q_proj": c.num_attention_heads, "k_proj": c.num_key_value_heads}.get(name.split(".")[-2])
        if c.model_type == "llama" and heads:
            # llama.cpp stores dimension i of a head next to dimension i + D/2.
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        if c.model_type == "gemma3_text" and "norm" in name:
            values = values + 1
        module, _, part = name.rpartition(".")
        tensors[f"{names.get_name(module)}.{part}"] = values
    return tensors


def fields_of(model: Any, tokenizer: Tokenizer, pre: str) -> dict[str, Any]:
    c, merges = model.config, json.loads(tokenizer.to_str())["model"]["merges"]
    tokens = [tokenizer.id_to_token(place) for place in range(tokenizer.get_vocab_size())]
    added = {place: 3 if token.special else 4 for place, token in tokenizer.get_added_tokens_decoder().items()}
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
    said |= {"token_type": [added.get(place, 1) for place in range(len(tokens))]}
    said |= {"bos_token_id": BOS, "eos_token_id": 1, "add_bos_token": False}
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
