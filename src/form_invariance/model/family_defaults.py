"""The keys of config.json that each family reads, and Hugging Face's default of each. No torch here."""

from typing import Any

Raw = dict[str, Any]
"""The content of config.json, or a part of it."""

_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
_GPT2_SIZES = ("n_embd", "n_layer", "n_head", "vocab_size")
_GPT2_NAMES = {
    "hidden_size": "n_embd",
    "max_position_embeddings": "n_positions",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
}
"""Other names of GPT-2's keys, which Hugging Face prefers."""

_ROTARY: Raw = {
    "rope_parameters": None,
    "rope_scaling": None,
    "rope_theta": 10_000.0,
    "partial_rotary_factor": None,
    "original_max_position_embeddings": None,
}
_LLAMA: Raw = {
    **_ROTARY,
    "num_key_value_heads": None,
    "head_dim": None,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
_QWEN: Raw = {
    **_LLAMA,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "use_sliding_window": False,
    "sliding_window": 4096,
}
_GEMMA: Raw = {
    **_ROTARY,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "attention_bias": False,
    "use_bidirectional_attention": None,
    "tie_word_embeddings": True,
}
DEFAULTS: dict[str, Raw] = {
    "llama": {**_LLAMA, "attention_bias": False, "mlp_bias": False},
    "mistral": {
        **_LLAMA,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "qwen2": _QWEN,
    "qwen3": {**_QWEN, "head_dim": 128, "attention_bias": False},
    "phi3": {
        **_LLAMA,
        "partial_rotary_factor": 1.0,
        "original_max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096,
        "sliding_window": None,
    },
    "olmo2": {**_LLAMA, "rms_norm_eps": 1e-5, "attention_bias": False},
    "gemma2": {
        **_GEMMA,
        "max_position_embeddings": 8192,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gemma3_text": {
        **_GEMMA,
        "max_position_embeddings": 131072,
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "final_logit_softcapping": None,
        "layer_types": None,
        "sliding_window_pattern": 6,
        "use_bidirectional_attention": False,
    },
    "gpt_neox": {
        "rope_parameters": None,
        "rope_scaling": None,
        "rotary_emb_base": 10_000.0,
        "rotary_pct": 0.25,
        "original_max_position_embeddings": None,
        "head_dim": None,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": 2048,
        "use_parallel_residual": True,
        "attention_bias": True,
        "tie_word_embeddings": False,
    },
    "gpt2": {
        "n_inner": None,
        "n_positions": 1024,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "tie_word_embeddings": True,
    },
}
"""The keys of config.json that may be absent, with Hugging Face's default, for each `model_type`."""


def settings(raw: Raw) -> Raw:
    """The keys of config.json that the model's family reads, with the family's defaults for absent keys."""
    family = raw["model_type"]
    if family == "gpt2":
        raw = {**raw, **{name: raw[other] for other, name in _GPT2_NAMES.items() if other in raw}}
    sizes = _GPT2_SIZES if family == "gpt2" else _SIZES
    return {
        "model_type": family,
        **{key: raw[key] for key in sizes if key in raw},
        **{key: raw.get(key, default) for key, default in DEFAULTS[family].items()},
    }


def tied(raw: Raw) -> bool:
    """Whether config.json says, or the family's default, that the unembedding is the embedding."""
    return bool(settings(raw)["tie_word_embeddings"])
