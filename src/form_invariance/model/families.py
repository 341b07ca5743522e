"""The supported architectures, and how to read the sizes and settings of each from config.json. No torch here."""

from collections.abc import Callable
from dataclasses import dataclass

from form_invariance.errors import UserError
from form_invariance.model.family_defaults import Raw, settings


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and settings that the forward pass needs. The defaults are Llama's."""

    n_layers: int
    d_model: int
    d_mlp: int
    n_heads: int
    n_key_value_heads: int
    d_head: int
    vocabulary: int
    norm_epsilon: float
    activation: str = "silu"
    gated: bool = True
    """The MLP has a gate as well as an up-projection."""
    parallel: bool = False
    """Attention and MLP read the same residual stream."""
    attention_scale: float | None = None
    """Factor of the attention scores; None means 1 / sqrt(d_head)."""
    attention_softcap: float | None = None
    logit_softcap: float | None = None
    embedding_scale: float = 1.0
    biases: frozenset[str] = frozenset()
    """Checkpoint's names of the matrices with a bias, where a family's models differ in that."""
    longest: int | None = None
    """Length limit of a prompt in tokens: the learned positions, or the sliding window."""

    @property
    def score_scale(self) -> float:
        """Factor of the attention scores."""
        return self.d_head**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def layer_parameters(self) -> int:
        """Number of parameters in the matrices of one layer."""
        attention = 2 * self.d_model * self.d_head * (self.n_heads + self.n_key_value_heads)
        return attention + (3 if self.gated else 2) * self.d_model * self.d_mlp


ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
"""Our names of the activation functions, by Hugging Face's names."""

_LARGEST = 2**40
"""Limit for every number in a config.json; a larger one is a mistake."""


def _number(raw: Raw, key: str, default: float | None = None) -> float:
    """A finite number above 0; the default if the key is missing or null."""
    value = default if raw.get(key) is None else raw[key]
    if value is None:
        raise ValueError(f"the key {key!r} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LARGEST:
        raise ValueError(f"{key} must be a number above 0, not {value!r:.60}")
    return float(value)


def _count(raw: Raw, key: str, default: int | None = None) -> int:
    """A whole number of at least 1; the default if the key is missing, null or 0."""
    value = _number({key: raw.get(key) or None}, key, default)
    if value < 1 or value != int(value):
        raise ValueError(f"{key} must be a whole number of at least 1, not {value:g}")
    return int(value)


def _cap(raw: Raw, key: str) -> float | None:
    """A soft cap; None if the key is null, or not one of the family's."""
    return None if raw.get(key) is None else _number(raw, key)


def _flag(raw: Raw, key: str) -> bool:
    """True or false; false if the family does not have the key."""
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, not {value!r:.60}")
    return value


def _whole_heads(width: int, heads: int) -> int:
    """Width of a head in the families whose heads share the residual stream's width."""
    if width % heads:
        raise ValueError(f"the width {width} must be a multiple of the number of attention heads, {heads}")
    return width // heads


_ATTENTION = frozenset({"q_proj", "k_proj", "v_proj", "o_proj"})
_MLP = frozenset({"gate_proj", "up_proj", "down_proj"})


def _common(raw: Raw) -> Raw:
    """The settings whose keys are the same in most families."""
    heads, width = _count(raw, "num_attention_heads"), _count(raw, "hidden_size")
    attention = _ATTENTION if _flag(raw, "attention_bias") else frozenset()
    return {
        "n_layers": _count(raw, "num_hidden_layers"),
        "d_model": width,
        "d_mlp": _count(raw, "intermediate_size"),
        "n_heads": heads,
        "n_key_value_heads": _count(raw, "num_key_value_heads", heads),
        "d_head": _count(raw, "head_dim", width // heads),
        "vocabulary": _count(raw, "vocab_size"),
        "norm_epsilon": _number(raw, "rms_norm_eps"),
        "activation": raw.get("hidden_act"),
        "longest": _window(raw),
        "biases": attention | (_MLP if _flag(raw, "mlp_bias") else frozenset()),
    }


def _window(raw: Raw) -> int | None:
    """The sliding window; None if no layer has one."""
    switched_off = "use_sliding_window" in raw and not _flag(raw, "use_sliding_window")
    return None if switched_off or not raw.get("sliding_window") else _count(raw, "sliding_window")


def _qwen2(raw: Raw) -> Raw:
    return {**_common(raw), "biases": frozenset({"q_proj", "k_proj", "v_proj"})}


def _gemma(raw: Raw) -> Raw:
    if raw["use_bidirectional_attention"]:
        raise ValueError("use_bidirectional_attention is not supported")
    return {
        **_common(raw),
        "activation": raw["hidden_activation"],
        "attention_scale": _count(raw, "query_pre_attn_scalar") ** -0.5,
        "attention_softcap": _cap(raw, "attn_logit_softcapping"),
        "logit_softcap": _cap(raw, "final_logit_softcapping"),
        "embedding_scale": _count(raw, "hidden_size") ** 0.5,
    }


def _gpt_neox(raw: Raw) -> Raw:
    width = _whole_heads(_count(raw, "hidden_size"), _count(raw, "num_attention_heads"))
    if _count(raw, "head_dim", width) != width:
        raise ValueError(f"head_dim must be {width}, the width divided by the heads, not {raw['head_dim']}")
    return {
        **_common({**raw, "rms_norm_eps": _number(raw, "layer_norm_eps")}),
        "gated": False,
        "parallel": _flag(raw, "use_parallel_residual"),
        "biases": frozenset({"query_key_value", "dense"} if _flag(raw, "attention_bias") else ()),
    }


def _gpt2(raw: Raw) -> Raw:
    if _flag(raw, "scale_attn_by_inverse_layer_idx") or not _flag(raw, "scale_attn_weights"):
        raise ValueError("attention scores that are scaled by layer, or not scaled, are not supported")
    width, heads = _count(raw, "n_embd"), _count(raw, "n_head")
    return {
        "n_layers": _count(raw, "n_layer"),
        "d_model": width,
        "d_mlp": _count(raw, "n_inner", 4 * width),
        "n_heads": heads,
        "n_key_value_heads": heads,
        "d_head": _whole_heads(width, heads),
        "vocabulary": _count(raw, "vocab_size"),
        "norm_epsilon": _number(raw, "layer_norm_epsilon"),
        "activation": raw["activation_function"],
        "gated": False,
        "longest": _count(raw, "n_positions"),
    }


READERS: dict[str, Callable[[Raw], Raw]] = {
    "llama": _common,
    "mistral": _common,
    "qwen2": _qwen2,
    "qwen3": _common,
    "phi3": _common,
    "olmo2": _common,
    "gemma2": _gemma,
    "gemma3_text": _gemma,
    "gpt_neox": _gpt_neox,
    "gpt2": _gpt2,
}
"""The reader of `settings` for each `model_type`."""


def _check_supported(raw: Raw, where: str) -> None:
    """Check keys that change what any family computes, or from which file it is read."""
    if (quantised := raw.get("quantization_config")) is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise UserError(
            f"{where}: the model is quantised (quantization_config: {method!s:.60}), and quantised weights are "
            "not read; give the model that was quantised"
        )
    for key in ("per_layer_config", "transformers_weights"):
        if raw.get(key) is not None:
            raise UserError(f"{where}: the key {key} is not supported")
    if not raw.get("is_causal", True):
        raise UserError(f"{where}: attention to later tokens (is_causal: false) is not supported")


def decoder_config(raw: Raw, where: str) -> DecoderConfig:
    """Sizes and settings of a model.

    Args:
        raw: the content of config.json.
        where: path of config.json, for messages.

    Raises:
        UserError: the family or its activation function is not supported, or a key is missing or wrong.
    """
    family = raw.get("model_type")
    if not isinstance(family, str) or family not in READERS:
        raise UserError(f"{where}: model_type {family!r} is not supported; supported are {', '.join(READERS)}")
    _check_supported(raw, where)
    try:
        known = settings(raw)
        _flag(known, "tie_word_embeddings")
        numbers = READERS[family](known)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    heads, keys = numbers["n_heads"], numbers["n_key_value_heads"]
    if heads % keys:
        raise UserError(f"{where}: num_attention_heads {heads} must be a multiple of num_key_value_heads {keys}")
    activation = str(numbers["activation"])
    if activation not in ACTIVATIONS:
        raise UserError(f"{where}: activation {activation!r} is not supported, only {', '.join(ACTIVATIONS)}")
    return DecoderConfig(**{**numbers, "activation": ACTIVATIONS[activation]})
