"""Write a Llama with the package's tokenizer as an ordinary Hugging Face folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from embedded_training.tokenizer import BOS, EOS
from form_invariance.tables.files import write_atomically, write_text


def llama_config(sizes: Mapping[str, Any], vocabulary: int, **settings: Any) -> dict[str, Any]:
    """The content of config.json.

    Args:
        sizes: n_layers, d_model, d_mlp, n_heads, n_key_value_heads and d_head; other keys are ignored.
        settings: further keys of config.json, or other values than below.
    """
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "head_dim": sizes["d_head"],
        "hidden_act": "silu",
        "hidden_size": sizes["d_model"],
        "intermediate_size": sizes["d_mlp"],
        "max_position_embeddings": 128,
        "mlp_bias": False,
        "num_attention_heads": sizes["n_heads"],
        "num_hidden_layers": sizes["n_layers"],
        "num_key_value_heads": sizes["n_key_value_heads"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vocab_size": vocabulary,
        **settings,
    }


def layer_shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights of one of Llama's layers, from config.json; norms are vectors."""
    d, m, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    return {
        "input_layernorm": (d,),
        "self_attn.q_proj": (queries, d),
        "self_attn.k_proj": (keys, d),
        "self_attn.v_proj": (keys, d),
        "self_attn.o_proj": (d, queries),
        "post_attention_layernorm": (d,),
        "mlp.gate_proj": (m, d),
        "mlp.up_proj": (m, d),
        "mlp.down_proj": (d, m),
    }


def write_description(folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer) -> None:
    """Write config.json and the tokenizer. Each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = {"bos_token_id": tokenizer.token_to_id(BOS), "eos_token_id": tokenizer.token_to_id(EOS)}
    options = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["max_position_embeddings"],
    }
    for name, content in (("config.json", {**config, **tokens}), ("tokenizer_config.json", options)):
        write_text(folder / name, json.dumps(content, indent=2) + "\n")
    write_atomically(folder / "tokenizer.json", lambda to: tokenizer.save(str(to)))


def write_folder(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Tensor], tokenizer: Tokenizer
) -> None:
    """Write a model: its description and, last, its weights."""
    write_description(folder, config, tokenizer)
    plain = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
    write_atomically(folder / "model.safetensors", lambda to: save_file(plain, to, metadata={"format": "pt"}))
