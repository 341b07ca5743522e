"""Where each architecture keeps its weights in a Hugging Face folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from form_invariance.model.decoder import LayerWeights, Norm
from form_invariance.model.families import DecoderConfig


class Reader(Protocol):
    """Gives a weight by its name, in the model's precision, after checking its shape."""

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The weight; an error where it is missing or of another shape."""

    def optional(self, name: str, *shape: int) -> Tensor | None:
        """The weight; None where it is missing."""


@dataclass(frozen=True)
class Layout:
    """Names of the weights outside the layers, and what reads one layer."""

    embedding: str
    final_norm: str
    unembedding: str
    layer: Callable[[Reader, DecoderConfig, int], LayerWeights]
    norm: Callable[[Reader, str, int], Norm]
    positions: str | None = None


def rms(read: Reader, name: str, width: int) -> Norm:
    """RMSNorm's weight."""
    return Norm(read(f"{name}.weight", width))


def rms_around_one(read: Reader, name: str, width: int) -> Norm:
    """Gemma keeps how far its norms' weights are from one."""
    return Norm(read(f"{name}.weight", width) + 1)


def layer_norm(read: Reader, name: str, width: int) -> Norm:
    """LayerNorm's weight and bias."""
    return Norm(read(f"{name}.weight", width), read(f"{name}.bias", width))


def _head_norm(
    read: Reader, name: str, widths: tuple[int, ...], norm: Callable[[Reader, str, int], Norm]
) -> Norm | None:
    """A norm of queries or keys: of one head's width or of all heads', or none."""
    for width in widths:
        if read.optional(f"{name}.weight", width) is not None:
            return norm(read, name, width)
    return None


def _projections(read: Reader, c: DecoderConfig, at: str) -> dict[str, Any]:
    """Queries, keys, values and output, each a matrix of its own."""
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


def _gated(read: Reader, c: DecoderConfig, at: str) -> dict[str, Any]:
    """A gated MLP."""
    return {
        "gate": read(f"{at}.gate_proj.weight", c.d_mlp, c.d_model),
        "up": read(f"{at}.up_proj.weight", c.d_mlp, c.d_model),
        "down": read(f"{at}.down_proj.weight", c.d_model, c.d_mlp),
    }


def _llama(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """Llama, Mistral, Qwen 2 and 3: norms before attention and MLP, Qwen 3's also of each query and key."""
    at = f"model.layers.{layer}"
    return LayerWeights(
        attention_norm=rms(read, f"{at}.input_layernorm", c.d_model),
        mlp_norm=rms(read, f"{at}.post_attention_layernorm", c.d_model),
        query_norm=_head_norm(read, f"{at}.self_attn.q_norm", (c.d_head,), rms),
        key_norm=_head_norm(read, f"{at}.self_attn.k_norm", (c.d_head,), rms),
        **_projections(read, c, f"{at}.self_attn"),
        **_gated(read, c, f"{at}.mlp"),
    )


def _olmo2(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """OLMo 2: norms behind attention and MLP, and of all queries and all keys together."""
    at = f"model.layers.{layer}"
    return LayerWeights(
        attention_post_norm=rms(read, f"{at}.post_attention_layernorm", c.d_model),
        mlp_post_norm=rms(read, f"{at}.post_feedforward_layernorm", c.d_model),
        query_norm=rms(read, f"{at}.self_attn.q_norm", c.n_heads * c.d_head),
        key_norm=rms(read, f"{at}.self_attn.k_norm", c.n_key_value_heads * c.d_head),
        **_projections(read, c, f"{at}.self_attn"),
        **_gated(read, c, f"{at}.mlp"),
    )


def _gemma(read: Reader, c: DecoderConfig, layer: int) -> LayerWeights:
    """Gemma 2 and 3: norms before and behind attention and MLP, Gemma 3's also of each query and key."""
    at = f"model.layers.{layer}"
    return LayerWeights(
        attention_norm=rms_around_one(read, f"{at}.input_layernorm", c.d_model),
        attention_post_norm=rms_around_one(read, f"{at}.post_attention_layernorm", c.d_model),
        mlp_norm=rms_around_one(read, f"{at}.pre_feedforward_layernorm", c.d_model),
        mlp_post_norm=rms_around_one(read, f"{at}.post_feedforward_layernorm", c.d_model),
        query_norm=_head_norm(read, f"{at}.self_attn.q_norm", (c.d_head,), rms_around_one),
        key_norm=_head_norm(read, f"{at}.self_attn.k_norm", (c.d_head,), rms_around_one),
        **_projections(read, c, f"{at}.self_attn"),
        **_gated(read, c, f"{at}.mlp"),
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
    """GPT-NeoX and Pythia: each head's query, key and value stand together in one matrix."""
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
    """GPT-2: matrices stand the other way round, (in, out)."""
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


def _like_llama(
    layer: Callable[[Reader, DecoderConfig, int], LayerWeights], norm: Callable[[Reader, str, int], Norm] = rms
) -> Layout:
    return Layout("model.embed_tokens.weight", "model.norm", "lm_head.weight", layer, norm)


LAYOUTS = {
    "llama": _like_llama(_llama),
    "mistral": _like_llama(_llama),
    "qwen2": _like_llama(_llama),
    "qwen3": _like_llama(_llama),
    "phi3": _like_llama(_phi3),
    "olmo2": _like_llama(_olmo2),
    "gemma2": _like_llama(_gemma, rms_around_one),
    "gemma3_text": _like_llama(_gemma, rms_around_one),
    "gpt_neox": Layout(
        "gpt_neox.embed_in.weight",
        "gpt_neox.final_layer_norm",
        "embed_out.weight",
        _gpt_neox,
        layer_norm,
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
