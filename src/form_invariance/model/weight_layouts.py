"""The names and arrangement of each architecture's weights in a Hugging Face folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

from torch import Tensor

from form_invariance.model.decoder import LayerWeights, Norm
from form_invariance.model.families import DecoderConfig


class Reader(Protocol):
    """Reads a weight by its name, in the model's precision, and checks its shape."""

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The weight; an error if it is missing or has another shape."""

    def optional(self, name: str, *shape: int) -> Tensor | None:
        """The weight; None if it is missing."""


LayerReader = Callable[[Reader, DecoderConfig, int], LayerWeights]
NormReader = Callable[[Reader, str, int], Norm]


@dataclass(frozen=True)
class Layout:
    """Names of the weights outside the layers, and the functions that read one layer and one norm."""

    embedding: str
    final_norm: str
    unembedding: str
    layer: LayerReader
    norm: NormReader
    positions: str | None = None


def rms(read: Reader, name: str, width: int) -> Norm:
    """RMSNorm's weight."""
    return Norm(read(f"{name}.weight", width))


def rms_around_one(read: Reader, name: str, width: int) -> Norm:
    """RMSNorm's weight in Gemma, which stores the weight minus one."""
    return Norm(read(f"{name}.weight", width) + 1)


def layer_norm(read: Reader, name: str, width: int) -> Norm:
    """LayerNorm's weight and bias."""
    return Norm(read(f"{name}.weight", width), read(f"{name}.bias", width))


def _projections(read: Reader, c: DecoderConfig, at: str) -> dict[str, Any]:
    """Separate matrices for queries, keys, values and output."""
    d, queries, keys = c.d_model, c.n_heads * c.d_head, c.n_key_value_heads * c.d_head
    return {
        "query": read(f"{at}.q_proj.weight", queries, d),
        "key": read(f"{at}.k_proj.weight", keys, d),
        "value": read(f"{at}.v_proj.weight", keys, d),
        "output": read(f"{at}.o_proj.weight", d, queries),
        "query_bias": read.optional(f"{at}.q_proj.bias", queries),
        "key_bias": read.optional(f"{at}.k_proj.bias", keys),
        "value_bias": read.optional(f"{at}.v_proj.bias", keys),
        "output_bias": read.optional(f"{at}.o_proj.bias", d),
    }


_LLAMA_NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
_OLMO2_NORMS = {"attention_post_norm": "post_attention_layernorm", "mlp_post_norm": "post_feedforward_layernorm"}
_GEMMA_NORMS = {
    "attention_norm": "input_layernorm",
    "attention_post_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_post_norm": "post_feedforward_layernorm",
}


def _llama(
    read: Reader,
    c: DecoderConfig,
    layer: int,
    norms: Mapping[str, str] = _LLAMA_NORMS,
    norm: NormReader = rms,
    head_norms: Literal["each", "together"] | None = None,
) -> LayerWeights:
    """Llama, and the families whose layers differ from Llama's only in their norms.

    Args:
        norms: our name and the checkpoint's name of each norm of width d.
        head_norms: whether queries and keys are normalised, over each head or over all heads together.
    """
    at = f"model.layers.{layer}"
    weights: dict[str, Any] = {ours: norm(read, f"{at}.{theirs}", c.d_model) for ours, theirs in norms.items()}
    if head_norms:
        heads = {"query": ("q_norm", c.n_heads), "key": ("k_norm", c.n_key_value_heads)}
        for name, (theirs, number) in heads.items():
            width = c.d_head * (number if head_norms == "together" else 1)
            weights[f"{name}_norm"] = norm(read, f"{at}.self_attn.{theirs}", width)
    return LayerWeights(
        gate=read(f"{at}.mlp.gate_proj.weight", c.d_mlp, c.d_model),
        up=read(f"{at}.mlp.up_proj.weight", c.d_mlp, c.d_model),
        down=read(f"{at}.mlp.down_proj.weight", c.d_model, c.d_mlp),
        **weights,
        **_projections(read, c, f"{at}.self_attn"),
    )


def _phi3(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """Phi-3: queries, keys and values in one matrix, gate and up in another."""
    at, queries, keys = f"model.layers.{layer}", c.n_heads * c.d_head, c.n_key_value_heads * c.d_head
    joint = read(f"{at}.self_attn.qkv_proj.weight", queries + 2 * keys, c.d_model)
    query, key, value = joint.split([queries, keys, keys])
    gate, up = read(f"{at}.mlp.gate_up_proj.weight", 2 * c.d_mlp, c.d_model).chunk(2)
    return LayerWeights(
        query=query,
        key=key,
        value=value,
        output=read(f"{at}.self_attn.o_proj.weight", c.d_model, queries),
        gate=gate,
        up=up,
        down=read(f"{at}.mlp.down_proj.weight", c.d_model, c.d_mlp),
        attention_norm=rms(read, f"{at}.input_layernorm", c.d_model),
        mlp_norm=rms(read, f"{at}.post_attention_layernorm", c.d_model),
    )


def _gpt_neox(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """GPT-NeoX and Pythia: one matrix holds query, key and value of each head in turn."""
    at, d = f"gpt_neox.layers.{layer}", c.d_model
    joint = read(f"{at}.attention.query_key_value.weight", 3 * d, d).view(c.n_heads, 3, c.d_head, d)
    query, key, value = (joint[:, part].reshape(d, d) for part in range(3))
    bias = read.optional(f"{at}.attention.query_key_value.bias", 3 * d)
    biases = None if bias is None else bias.view(c.n_heads, 3, c.d_head)
    return LayerWeights(
        query=query,
        key=key,
        value=value,
        output=read(f"{at}.attention.dense.weight", d, d),
        up=read(f"{at}.mlp.dense_h_to_4h.weight", c.d_mlp, d),
        down=read(f"{at}.mlp.dense_4h_to_h.weight", d, c.d_mlp),
        attention_norm=layer_norm(read, f"{at}.input_layernorm", d),
        mlp_norm=layer_norm(read, f"{at}.post_attention_layernorm", d),
        query_bias=None if biases is None else biases[:, 0].flatten(),
        key_bias=None if biases is None else biases[:, 1].flatten(),
        value_bias=None if biases is None else biases[:, 2].flatten(),
        output_bias=read.optional(f"{at}.attention.dense.bias", d),
        up_bias=read(f"{at}.mlp.dense_h_to_4h.bias", c.d_mlp),
        down_bias=read(f"{at}.mlp.dense_4h_to_h.bias", d),
    )


def _gpt2(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """GPT-2: matrices are (in, out)."""
    at, d = f"transformer.h.{layer}", c.d_model
    query, key, value = (
        part.T.contiguous() for part in read(f"{at}.attn.c_attn.weight", d, 3 * d).chunk(3, dim=1)
    )
    query_bias, key_bias, value_bias = read(f"{at}.attn.c_attn.bias", 3 * d).chunk(3)
    return LayerWeights(
        query=query,
        key=key,
        value=value,
        output=read(f"{at}.attn.c_proj.weight", d, d).T.contiguous(),
        up=read(f"{at}.mlp.c_fc.weight", d, c.d_mlp).T.contiguous(),
        down=read(f"{at}.mlp.c_proj.weight", c.d_mlp, d).T.contiguous(),
        attention_norm=layer_norm(read, f"{at}.ln_1", d),
        mlp_norm=layer_norm(read, f"{at}.ln_2", d),
        query_bias=query_bias,
        key_bias=key_bias,
        value_bias=value_bias,
        output_bias=read(f"{at}.attn.c_proj.bias", d),
        up_bias=read(f"{at}.mlp.c_fc.bias", c.d_mlp),
        down_bias=read(f"{at}.mlp.c_proj.bias", d),
    )


def _like_llama(layer: LayerReader, norm: NormReader = rms) -> Layout:
    return Layout("model.embed_tokens.weight", "model.norm", "lm_head.weight", layer, norm)


_GEMMA = partial(_llama, norms=_GEMMA_NORMS, norm=rms_around_one)

LAYOUTS = {
    "llama": _like_llama(_llama),
    "mistral": _like_llama(_llama),
    "qwen2": _like_llama(_llama),
    "qwen3": _like_llama(partial(_llama, head_norms="each")),
    "phi3": _like_llama(_phi3),
    "olmo2": _like_llama(partial(_llama, norms=_OLMO2_NORMS, head_norms="together")),
    "gemma2": _like_llama(_GEMMA, rms_around_one),
    "gemma3_text": _like_llama(partial(_GEMMA, head_norms="each"), rms_around_one),
    "gpt_neox": Layout(
        "gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm", "embed_out.weight", _gpt_neox, layer_norm
    ),
    "gpt2": Layout(
        "transformer.wte.weight",
        "transformer.ln_f",
        "lm_head.weight",
        _gpt2,
        layer_norm,
        positions="transformer.wpe.weight",
    ),
}
"""Layouts by `model_type`."""
