"""From a transformers model to a `Decoder` that holds views of its weights, by the names of its modules."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from form_invariance.errors import in_one_sentence
from form_invariance.model.decoder import Decoder, LayerWeights
from form_invariance.model.modules import Modules, quantised, unwrapped
from form_invariance.model.sizes import PROVEN, DecoderConfig

_FACTORS = (
    *("residual_multiplier", "embedding_multiplier", "logits_scaling", "logit_scale", "lm_head_multiplier"),
    *("scale_emb", "scale_depth", "mup_width_scale", "mup_embeddings_multiplier"),
)
"""Keys of config.json for factors that the engine does not apply; they must be 1."""


@dataclass(frozen=True)
class Family:
    """Paths of a model's modules."""

    layers: str
    embedding: str
    final_norm: str
    attention: str  # path in a layer, as are those of matrices and norms
    matrices: dict[str, str]  # path of each matrix: the fields of `LayerWeights` that it holds
    norms: dict[str, str]  # field of `LayerWeights`: path of the norm
    by_head: bool = False  # a joint matrix holds query, key and value of each head in turn
    rotary: str | None = None
    positions: str | None = None


FAMILIES = {
    "model": Family(
        layers="model.layers",
        embedding="model.embed_tokens",
        final_norm="model.norm",
        attention="self_attn",
        matrices={
            "self_attn.qkv_proj": "query key value",
            "self_attn.q_proj": "query",
            "self_attn.k_proj": "key",
            "self_attn.v_proj": "value",
            "self_attn.o_proj": "output",
            "mlp.gate_up_proj": "gate up",
            "mlp.gate_proj": "gate",
            "mlp.up_proj": "up",
            "mlp.down_proj": "down",
        },
        norms={
            "attention_norm": "input_layernorm",
            "mlp_norm": "post_attention_layernorm",
            "query_norm": "self_attn.q_norm",
            "key_norm": "self_attn.k_norm",
        },
        rotary="model.rotary_emb",
    ),
    "gpt_neox": Family(
        layers="gpt_neox.layers",
        embedding="gpt_neox.embed_in",
        final_norm="gpt_neox.final_layer_norm",
        attention="attention",
        matrices={
            "attention.query_key_value": "query key value",
            "attention.dense": "output",
            "mlp.dense_h_to_4h": "up",
            "mlp.dense_4h_to_h": "down",
        },
        norms={"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"},
        by_head=True,
        rotary="gpt_neox.rotary_emb",
    ),
    "transformer": Family(
        layers="transformer.h",
        embedding="transformer.wte",
        final_norm="transformer.ln_f",
        attention="attn",
        matrices={
            "attn.c_attn": "query key value",
            "attn.c_proj": "output",
            "mlp.c_fc": "up",
            "mlp.c_proj": "down",
        },
        norms={"attention_norm": "ln_1", "mlp_norm": "ln_2"},
        positions="transformer.wpe",
    ),
}
"""Llama and all classes with its modules, GPT-NeoX, GPT-2, by a path: the first that a model has decides."""
_AROUND = {
    "attention_post_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_post_norm": "post_feedforward_layernorm",
}
"""The norms of a layer that has a norm after the MLP; there the norm after attention belongs to attention."""
_ATTRIBUTES = {
    *("act", "act_fn", "activation_fn", "attention_dropout", "attention_softmax_in_fp32", "attention_type"),
    *("attn_dropout", "attn_logit_softcapping", "attn_pdrop", "config", "dropout", "embed_dim", "head_dim"),
    *("head_size", "hidden_size", "intermediate_size", "is_causal", "is_cross_attention", "is_sliding", "k_norm"),
    *("kv_dim", "kv_heads", "layer_idx", "layer_type", "mask_value", "multi_query", "num_attention_heads"),
    *("num_heads", "num_key_value_groups", "num_key_value_heads", "q_norm", "qk_layernorm", "resid_dropout"),
    *("reorder_and_upcast_attn", "residual_dropout", "rotary_ndims", "scale_attention_softmax_in_fp32"),
    *("scale_attn_by_inverse_layer_idx", "scale_attn_weights", "scaling", "sliding_window", "split_size"),
    "use_rope",
}
"""Known attributes of attention and MLP modules, apart from matrices. Unknown ones may change other results."""
_OPTIONAL = ("self_attn.qkv_proj", "mlp.gate_up_proj", "mlp.gate_proj")


def _layer(modules: Modules, family: Family, at: str) -> LayerWeights:
    """Read the layer at a path, and note its settings; refuse a layer with unknown attributes."""
    path = f"{at}.{family.attention}"
    attention, heads = modules.get(path), modules.get("config.num_attention_heads")
    width = modules.set(path, "d_head", modules.get(f"{path}.head_dim", f"{path}.head_size"))
    modules.set(path, "attention_scale", modules.get(f"{path}.scaling"))
    modules.set(path, "attention_softcap", getattr(attention, "attn_logit_softcapping", None))
    modules.set(at, "parallel", getattr(modules.get(at), "use_parallel_residual", False))
    if not getattr(attention, "is_causal", True):
        modules.refuse(path, "attends to later tokens")
    parts: dict[str, Any] = {}
    for stored, words in family.matrices.items():
        names, matrix_path = words.split(), f"{at}.{stored}"
        if names[0] not in parts and not (stored in _OPTIONAL and modules.find(matrix_path) is None):
            for suffix, joint in zip(("", "_bias"), modules.linear(matrix_path), strict=True):
                if joint is not None:
                    split = _split(joint, names, heads, width, family.by_head)
                    parts |= {name + suffix: part for name, part in zip(names, split, strict=True)}
    modules.activation(*(f"{at}.mlp.{name}" for name in ("act_fn", "activation_fn", "act")))
    around = modules.find(f"{at}.post_feedforward_layernorm") is not None
    norms = family.norms | (_AROUND if around else {})
    parts |= {name: modules.norm(f"{at}.{stored}") for name, stored in norms.items()}
    expected = {stored.rpartition(".")[2] for stored in family.matrices} | _ATTRIBUTES
    for part in (path, f"{at}.mlp"):
        if unknown := modules.attributes(part) - expected:
            modules.refuse(part, f"has {min(unknown)}")
    return LayerWeights(**parts)


def _split(joint: Tensor, names: list[str], heads: int, width: int, by_head: bool) -> list[Tensor]:
    """The named parts of a joint matrix, or of its bias."""
    if len(names) < 3:
        return list(joint.chunk(len(names)))
    if by_head:
        return [part.flatten(0, 1) for part in joint.unflatten(0, (-1, len(names), width)).unbind(1)]
    query = width * heads
    key = (len(joint) - query) // 2
    return list(joint.split([query, key, key]))


def family_of(modules: Modules) -> Family:
    """The family of a model.

    Raises:
        UserError: no family has these modules, the model is quantised, or it has a factor that the engine does not
            apply.
    """
    config = modules.find("config")
    if (quantization := getattr(config, "quantization_config", None)) is not None:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise quantised(modules.where, f"quantization_config: {method!s:.60}")
    for name in _FACTORS:
        if (factor := getattr(config, name, None)) not in (None, 1):
            modules.refuse("", f"has {name} {factor}")
    for name, family in FAMILIES.items():
        if modules.find(name) is not None:
            return family
    return modules.refuse("", f"has none of the parts {', '.join(FAMILIES)}")


def _window(config: Any) -> int:
    """The sliding window; `PROVEN` if no layer has one."""
    window, types = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    return PROVEN if types and not any("sliding" in str(kind) for kind in types) else window or PROVEN


def read(model: nn.Module, where: str, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The `Decoder` of a transformers model. Its weights are views where device and precision are the model's.

    Args:
        where: the model's name for messages.

    Raises:
        UserError: the model has a part that the engine does not compute.
    """
    modules = Modules(unwrapped(model), where, dtype, device)
    with _readable(modules):
        return _assembled(modules)


def check(model: nn.Module, where: str) -> None:
    """Check that a model without weights (device meta) can be read: its first layer and its rotary embeddings.

    Raises:
        UserError: it cannot be read.
    """
    modules = Modules(model, where, torch.float32, torch.device("meta"))
    with _readable(modules):
        family = family_of(modules)
        _layer(modules, family, f"{family.layers}.0")
        for number in range(len(modules.get(family.layers))):
            _frequencies(modules, family, number)


def _frequencies(modules: Modules, family: Family, layer: int) -> Tensor | None:
    """Inverse frequencies of a layer's rotary embedding; None if it has none."""
    attention = modules.get(f"{family.layers}.{layer}.{family.attention}")
    if not family.rotary or not getattr(attention, "use_rope", True):
        return None
    kinds = getattr(modules.find("config"), "layer_types", None)
    return modules.frequencies(family.rotary, kinds[layer] if kinds else "")


def _readable(modules: Modules) -> AbstractContextManager[None]:
    """Turn any error on a model with unknown parts into one sentence."""
    return in_one_sentence(f"{modules.where}: this {type(modules.model).__name__} cannot be read")


def _assembled(modules: Modules) -> Decoder:
    family, config = family_of(modules), modules.find("config")
    layers = []
    for number in range(len(modules.get(family.layers))):
        at = f"{family.layers}.{number}"
        layer = _layer(modules, family, at)
        layer.inverse_frequencies = _frequencies(modules, family, number)
        for name in ("query", "key", "up"):
            modules.set(at, f"size of {name}", len(getattr(layer, name)))
        layers.append(layer)
    settings = modules.settings
    head = next((name for name in ("lm_head", "embed_out") if modules.find(name) is not None), "lm_head")
    unembedding, bias = modules.linear(head)
    embedding = modules.weight(f"{family.embedding}.weight")
    # TransformerLens gives the unembedding a bias of zeros.
    if (bias is not None and bias.any()) or unembedding.shape != embedding.shape:
        modules.refuse(head, "has a bias, or another shape than the embedding")
    positions = modules.weight(f"{family.positions}.weight") if family.positions else None
    final_norm = modules.norm(family.final_norm)
    if final_norm is None:
        modules.refuse(family.final_norm.rpartition(".")[0], "has no norm after the last layer")
    width = settings["d_head"]
    return Decoder(
        config=DecoderConfig(
            n_layers=len(layers),
            d_model=embedding.shape[1],
            d_mlp=settings["size of up"],
            n_heads=settings["size of query"] // width,
            n_key_value_heads=settings["size of key"] // width,
            d_head=width,
            vocabulary=len(embedding),
            gated=layers[0].gate is not None,
            norm_epsilon=settings["norm_epsilon"],
            activation=settings["activation"],
            parallel=settings["parallel"],
            attention_scale=settings["attention_scale"],
            attention_softcap=settings["attention_softcap"],
            logit_softcap=getattr(config, "final_logit_softcapping", None),
            embedding_scale=float(getattr(modules.get(family.embedding), "embed_scale", 1)),
            longest=min(PROVEN, _window(config) if positions is None else len(positions)),
        ),
        embedding=embedding,
        layers=layers,
        final_norm=final_norm,
        unembedding=unembedding.float(),
        positions=positions,
    )
