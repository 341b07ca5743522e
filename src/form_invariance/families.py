"""Architectures that can be read, and the numbers of each from its config.json. Nothing here imports torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from form_invariance.errors import UserError


@dataclass(frozen=True)
class DecoderConfig:
    """The numbers that the forward pass needs, and where an architecture leaves Llama's."""

    n_layers: int
    d_model: int
    d_mlp: int
    n_heads: int
    n_key_value_heads: int
    d_head: int
    vocabulary: int
    norm_epsilon: float
    activation: str = "silu"
    parallel: bool = False
    """Attention and MLP read the same residual stream."""
    attention_scale: float | None = None
    """Factor of the attention scores; None: 1 / sqrt(d_head)."""
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    embedding_scale: float = 1.0
    longest: int | None = None
    """Tokens of the longest prompt: learned positions, or the shortest sliding window."""

    @property
    def score_scale(self) -> float:
        """Factor of the attention scores."""
        return self.d_head**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer's matrices, with a gated MLP."""
        attention = 2 * self.d_model * self.d_head * (self.n_heads + self.n_key_value_heads)
        return attention + 3 * self.d_model * self.d_mlp


ACTIVATIONS = {
    "silu": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
"""Our names by Hugging Face's."""

Raw = dict[str, Any]


def _common(raw: Raw) -> Raw:
    """What most families name alike."""
    heads = int(raw["num_attention_heads"])
    return {
        "n_layers": int(raw["num_hidden_layers"]),
        "d_model": int(raw["hidden_size"]),
        "d_mlp": int(raw["intermediate_size"]),
        "n_heads": heads,
        "n_key_value_heads": int(raw.get("num_key_value_heads") or heads),
        "d_head": int(raw.get("head_dim") or raw["hidden_size"] // heads),
        "vocabulary": int(raw["vocab_size"]),
        "norm_epsilon": float(raw.get("rms_norm_eps", 1e-6)),
        "activation": str(raw.get("hidden_act", "silu")),
        "longest": _window(raw),
    }


def _window(raw: Raw) -> int | None:
    """The sliding window of those layers that have one; None where none does."""
    if not raw.get("sliding_window") or raw.get("use_sliding_window") is False:
        return None
    return int(raw["sliding_window"])


def _gemma(raw: Raw) -> Raw:
    return {
        **_common(raw),
        "activation": str(raw.get("hidden_activation") or "gelu_pytorch_tanh"),
        "d_head": int(raw.get("head_dim", 256)),
        "attention_scale": float(raw.get("query_pre_attn_scalar", 256)) ** -0.5,
        "attention_softcap": raw.get("attn_logit_softcapping"),
        "logit_softcap": raw.get("final_logit_softcapping"),
        "embedding_scale": float(raw["hidden_size"]) ** 0.5,
    }


def _gpt_neox(raw: Raw) -> Raw:
    return {
        **_common(raw),
        "norm_epsilon": float(raw.get("layer_norm_eps", 1e-5)),
        "activation": str(raw.get("hidden_act", "gelu")),
        "parallel": bool(raw.get("use_parallel_residual", True)),
    }


def _gpt2(raw: Raw) -> Raw:
    width, heads = int(raw["n_embd"]), int(raw["n_head"])
    if raw.get("scale_attn_by_inverse_layer_idx") or not raw.get("scale_attn_weights", True):
        raise UserError("config.json: attention scaled by layer, or not at all, is not supported in gpt2 models")
    return {
        "n_layers": int(raw["n_layer"]),
        "d_model": width,
        "d_mlp": int(raw.get("n_inner") or 4 * width),
        "n_heads": heads,
        "n_key_value_heads": heads,
        "d_head": width // heads,
        "vocabulary": int(raw["vocab_size"]),
        "norm_epsilon": float(raw.get("layer_norm_epsilon", 1e-5)),
        "activation": str(raw.get("activation_function", "gelu_new")),
        "longest": int(raw.get("n_positions", 1024)),
    }


READERS: dict[str, Callable[[Raw], Raw]] = {
    "llama": _common,
    "mistral": _common,
    "qwen2": _common,
    "qwen3": _common,
    "phi3": _common,
    "olmo2": _common,
    "gemma2": _gemma,
    "gemma3_text": _gemma,
    "gpt_neox": _gpt_neox,
    "gpt2": _gpt2,
}
"""What reads each `model_type`."""


_SIZES = ("n_layers", "d_model", "d_mlp", "n_heads", "n_key_value_heads", "d_head", "vocabulary")
_FACTORS = ("norm_epsilon", "attention_scale", "attention_softcap", "logit_softcap", "longest")


def _check_numbers(numbers: Raw, where: str) -> None:
    """Sizes are at least 1, factors above 0 where they are given, and heads share keys evenly."""
    for name in _SIZES:
        if numbers[name] < 1:
            raise UserError(f"{where}: {name} is {numbers[name]}, but must be at least 1")
    for name in _FACTORS:
        value = numbers.get(name)
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise UserError(f"{where}: {name} is {value!r}, but must be a number above 0")
    heads, shared = numbers["n_heads"], numbers["n_key_value_heads"]
    if heads % shared:
        raise UserError(f"{where}: {heads} attention heads cannot share {shared} keys evenly")


def decoder_config(raw: Raw, where: str) -> DecoderConfig:
    """The numbers of a model from its raw config.json.

    Args:
        where: the file, for messages.

    Raises:
        UserError: the family or its activation is not supported, or a key is missing or wrong.
    """
    family = raw.get("model_type")
    if not isinstance(family, str) or family not in READERS:
        known = ", ".join(READERS)
        raise UserError(f"{where}: model_type {family!r} is not supported; supported are {known}")
    try:
        numbers = READERS[family](raw)
    except KeyError as error:
        raise UserError(f"{where}: key {error} is missing") from None
    except (TypeError, ValueError, ArithmeticError) as error:
        raise UserError(f"{where}: a size of the model is not a number that can be used: {error}") from None
    _check_numbers(numbers, where)
    if numbers["activation"] not in ACTIVATIONS:
        raise UserError(
            f"{where}: activation {numbers['activation']!r} is not supported, only {', '.join(ACTIVATIONS)}"
        )
    return DecoderConfig(**{**numbers, "activation": ACTIVATIONS[numbers["activation"]]})
