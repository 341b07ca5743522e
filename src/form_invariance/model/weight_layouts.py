"""The names and arrangement of each architecture's weights in a Hugging Face folder."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from form_invariance.model.decoder import LayerWeights, Norm
from form_invariance.model.families import DecoderConfig

Reader = Callable[..., Any]
"""`read(name, *shape)` gives a weight in the model's precision and checks its shape; an error if it is missing, or
None with `optional=True`."""
LayerReader = Callable[[Reader, DecoderConfig, int], LayerWeights]
NormReader = Callable[[Reader, str, int], Norm]


def rms(read: Reader, name: str, width: int) -> Norm:
    """RMSNorm's weight."""
    return Norm(read(f"{name}.weight", width))


def rms_around_one(read: Reader, name: str, width: int) -> Norm:
    """RMSNorm's weight in Gemma, which stores the weight minus one."""
    return Norm(read(f"{name}.weight", width) + 1)


def layer_norm(read: Reader, name: str, width: int) -> Norm:
    """LayerNorm's weight and bias."""
    return Norm(read(f"{name}.weight", width), read(f"{name}.bias", width))


@dataclass(frozen=True)
class Layout:
    """Names of the weights outside the layers, and the functions that read one layer and one norm."""

    layer: LayerReader
    norm: NormReader = rms
    embedding: str = "model.embed_tokens.weight"
    final_norm: str = "model.norm"
    unembeddings: tuple[str, ...] = ("lm_head.weight",)
    positions: str | None = None
    buffers: re.Pattern[str] = re.compile(r"rotary_emb\.inv_freq$")
    """What old checkpoints store in addition to the weights."""


def llama_shapes(c: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights of one of Llama's layers; norms are vectors."""
    d, m, queries, keys = c.d_model, c.d_mlp, c.n_heads * c.d_head, c.n_key_value_heads * c.d_head
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
    weights: dict[str, Any] = {ours: norm(read, f"{at}.{stored}", c.d_model) for ours, stored in norms.items()}
    if head_norms:
        heads = {"query": ("q_norm", c.n_heads), "key": ("k_norm", c.n_key_value_heads)}
        for name, (stored, number) in heads.items():
            width = c.d_head * (number if head_norms == "together" else 1)
            weights[f"{name}_norm"] = norm(read, f"{at}.self_attn.{stored}", width)
    names = ("query", "key", "value", "output", "gate", "up", "down")
    matrices = [(stored, shape) for stored, shape in llama_shapes(c).items() if len(shape) == 2]
    for name, (stored, shape) in zip(names, matrices, strict=True):
        weights[name] = read(f"{at}.{stored}.weight", *shape)
        if stored.split(".")[-1] in c.biases:
            weights[f"{name}_bias"] = read(f"{at}.{stored}.bias", shape[0])
    return LayerWeights(**weights)


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
    weights: dict[str, Any] = {}
    for kind, shape in (("weight", (3 * d, d)), ("bias", (3 * d,)))[: 1 + ("query_key_value" in c.biases)]:
        joint = read(f"{at}.attention.query_key_value.{kind}", *shape)
        for part, name in enumerate(("query", "key", "value")):
            part_weights = joint.unflatten(0, (c.n_heads, 3, c.d_head))[:, part].flatten(0, 1)
            weights[name if kind == "weight" else f"{name}_bias"] = part_weights
    return LayerWeights(
        **weights,
        output=read(f"{at}.attention.dense.weight", d, d),
        output_bias=read(f"{at}.attention.dense.bias", d) if "dense" in c.biases else None,
        up=read(f"{at}.mlp.dense_h_to_4h.weight", c.d_mlp, d),
        up_bias=read(f"{at}.mlp.dense_h_to_4h.bias", c.d_mlp),
        down=read(f"{at}.mlp.dense_4h_to_h.weight", d, c.d_mlp),
        down_bias=read(f"{at}.mlp.dense_4h_to_h.bias", d),
        attention_norm=layer_norm(read, f"{at}.input_layernorm", d),
        mlp_norm=layer_norm(read, f"{at}.post_attention_layernorm", d),
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


_GEMMA = partial(_llama, norms=_GEMMA_NORMS, norm=rms_around_one)

LAYOUTS = {
    "llama": Layout(_llama),
    "mistral": Layout(_llama),
    "qwen2": Layout(_llama),
    "qwen3": Layout(partial(_llama, head_norms="each")),
    "phi3": Layout(_phi3),
    "olmo2": Layout(partial(_llama, norms=_OLMO2_NORMS, head_norms="together")),
    "gemma2": Layout(_GEMMA, rms_around_one),
    "gemma3_text": Layout(partial(_GEMMA, head_norms="each"), rms_around_one),
    "gpt_neox": Layout(
        _gpt_neox,
        layer_norm,
        "gpt_neox.embed_in.weight",
        "gpt_neox.final_layer_norm",
        ("lm_head.weight", "embed_out.weight"),
        buffers=re.compile(r"rotary_emb\.inv_freq$|\battention\.(masked_)?bias$"),
    ),
    "gpt2": Layout(
        _gpt2,
        layer_norm,
        "transformer.wte.weight",
        "transformer.ln_f",
        positions="transformer.wpe.weight",
        buffers=re.compile(r"\battn\.(masked_)?bias$"),
    ),
}
"""Layouts by `model_type`."""
