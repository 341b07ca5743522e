"""From a transformers model to a `Decoder` that holds views of its weights: a function for each kind of layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from form_invariance.errors import UserError, one_line
from form_invariance.model.decoder import Decoder, LayerWeights
from form_invariance.model.folders import quantised
from form_invariance.model.modules import Modules, unwrapped
from form_invariance.model.sizes import DecoderConfig

_FACTORS = (
    *("residual_multiplier", "embedding_multiplier", "logits_scaling", "logit_scale", "lm_head_multiplier"),
    *("scale_emb", "scale_depth", "mup_width_scale", "mup_embeddings_multiplier"),
)
"""Keys of config.json for factors that the engine does not apply; they must be 1."""

Linear = tuple[Tensor, Tensor | None]
"""A matrix (out, in), and its bias."""


@dataclass(frozen=True)
class Family:
    """Paths of a model's modules, and the function that reads a layer."""

    layer: Callable[[Modules, str], LayerWeights]
    layers: str
    embedding: str
    final_norm: str
    attention: str
    rotary: str | None = None
    positions: str | None = None


def _named(name: str, linear: Linear) -> dict[str, Any]:
    return {name: linear[0], f"{name}_bias": linear[1]}


def _split(linear: Linear, sizes: list[int]) -> list[Linear]:
    """Split a joint matrix into its parts."""
    weight, bias = linear
    biases = [None] * len(sizes) if bias is None else bias.split(sizes)
    return list(zip(weight.split(sizes), biases, strict=True))


def _attention(modules: Modules, at: str, width: str) -> int:
    """Note the settings of an attention module. Returns the width of a head."""
    module = modules.get(at)
    modules.set(at, "attention_scale", modules.get(f"{at}.scaling"))
    modules.set(at, "attention_softcap", getattr(module, "attn_logit_softcapping", None))
    if not getattr(module, "is_causal", True):
        modules.refuse(at, "attends to later tokens")
    return int(modules.set(at, "d_head", modules.get(f"{at}.{width}")))


def _llama(modules: Modules, at: str) -> LayerWeights:
    """Llama, and every class with the same modules: norms may be in other places, and matrices may be joined."""
    attention, mlp, config = f"{at}.self_attn", f"{at}.mlp", modules.find("config")
    width = _attention(modules, attention, "head_dim")
    parts: dict[str, Any] = {}
    if modules.find(f"{attention}.qkv_proj") is not None:
        heads = config.num_attention_heads, config.num_key_value_heads, config.num_key_value_heads
        joint = _split(modules.linear(f"{attention}.qkv_proj"), [width * number for number in heads])
    else:
        joint = [modules.linear(f"{attention}.{name}_proj") for name in "qkv"]
    for name, linear in zip(("query", "key", "value"), joint, strict=True):
        parts |= _named(name, linear)
    parts |= _named("output", modules.linear(f"{attention}.o_proj"))
    if modules.find(f"{mlp}.gate_up_proj") is not None:
        whole = modules.linear(f"{mlp}.gate_up_proj")
        gate, up = _split(whole, [len(whole[0]) // 2] * 2)
        parts |= _named("gate", gate) | _named("up", up)
    else:
        if modules.find(f"{mlp}.gate_proj") is not None:
            parts |= _named("gate", modules.linear(f"{mlp}.gate_proj"))
        parts |= _named("up", modules.linear(f"{mlp}.up_proj"))
    parts |= _named("down", modules.linear(f"{mlp}.down_proj"))
    modules.activation(f"{mlp}.act_fn", f"{mlp}.activation_fn")
    # If a norm follows the MLP, the norm after attention belongs to attention.
    around = modules.find(f"{at}.post_feedforward_layernorm") is not None
    norms = {
        "attention_norm": "input_layernorm",
        "attention_post_norm" if around else "mlp_norm": "post_attention_layernorm",
        "mlp_post_norm": "post_feedforward_layernorm",
        "query_norm": "self_attn.q_norm",
        "key_norm": "self_attn.k_norm",
    }
    if modules.find(f"{at}.pre_feedforward_layernorm") is not None:
        norms["mlp_norm"] = "pre_feedforward_layernorm"
    parts |= {name: modules.norm(f"{at}.{stored}") for name, stored in norms.items()}
    return LayerWeights(**parts)


def _gpt_neox(modules: Modules, at: str) -> LayerWeights:
    """GPT-NeoX and Pythia: one matrix holds query, key and value of each head in turn."""
    width = _attention(modules, f"{at}.attention", "head_size")
    modules.set(at, "parallel", modules.get(f"{at}.use_parallel_residual"))
    joint = modules.linear(f"{at}.attention.query_key_value")
    parts: dict[str, Any] = {}
    for part, name in enumerate(("query", "key", "value")):
        for kind, both in _named(name, joint).items():
            parts[kind] = None if both is None else both.unflatten(0, (-1, 3, width))[:, part].flatten(0, 1)
    modules.activation(f"{at}.mlp.act")
    return LayerWeights(
        **parts,
        **_named("output", modules.linear(f"{at}.attention.dense")),
        **_named("up", modules.linear(f"{at}.mlp.dense_h_to_4h")),
        **_named("down", modules.linear(f"{at}.mlp.dense_4h_to_h")),
        attention_norm=modules.norm(f"{at}.input_layernorm"),
        mlp_norm=modules.norm(f"{at}.post_attention_layernorm"),
    )


def _gpt2(modules: Modules, at: str) -> LayerWeights:
    """GPT-2: query, key and value are one matrix."""
    _attention(modules, f"{at}.attn", "head_dim")
    modules.activation(f"{at}.mlp.act")
    joint = modules.linear(f"{at}.attn.c_attn")
    query, key, value = _split(joint, [len(joint[0]) // 3] * 3)
    return LayerWeights(
        **_named("query", query),
        **_named("key", key),
        **_named("value", value),
        **_named("output", modules.linear(f"{at}.attn.c_proj")),
        **_named("up", modules.linear(f"{at}.mlp.c_fc")),
        **_named("down", modules.linear(f"{at}.mlp.c_proj")),
        attention_norm=modules.norm(f"{at}.ln_1"),
        mlp_norm=modules.norm(f"{at}.ln_2"),
    )


FAMILIES = {
    "model": Family(
        _llama, "model.layers", "model.embed_tokens", "model.norm", "self_attn", rotary="model.rotary_emb"
    ),
    "gpt_neox": Family(
        _gpt_neox,
        "gpt_neox.layers",
        "gpt_neox.embed_in",
        "gpt_neox.final_layer_norm",
        "attention",
        rotary="gpt_neox.rotary_emb",
    ),
    "transformer": Family(
        _gpt2, "transformer.h", "transformer.wte", "transformer.ln_f", "attn", positions="transformer.wpe"
    ),
}
"""By the name of the module that contains the layers."""


def family_of(modules: Modules) -> Family:
    """The family of a model.

    Raises:
        UserError: no family has such modules, the model multiplies by a factor that the engine does not, or it is
            quantised.
    """
    config = modules.find("config")
    if (given := getattr(config, "quantization_config", None)) is not None:
        method = given.get("quant_method") if isinstance(given, dict) else given
        raise quantised(modules.where, f"quantization_config: {method!s:.60}")
    for name in _FACTORS:
        if (factor := getattr(config, name, None)) not in (None, 1):
            modules.refuse("", f"has {name} {factor}")
    for name, family in FAMILIES.items():
        if modules.find(name) is not None:
            return family
    return modules.refuse("", f"has none of the parts {', '.join(FAMILIES)}")


def _window(config: Any) -> int | None:
    """The sliding window; None if no layer has one."""
    window, types = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    return None if types and not any("sliding" in str(kind) for kind in types) else window or None


def read(model: nn.Module, where: str, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The `Decoder` of a transformers model. Its weights are views where device and precision are the model's.

    Args:
        where: the model's name for messages.

    Raises:
        UserError: the model has a part that the engine does not compute.
    """
    modules = Modules(unwrapped(model), where, dtype, device)
    try:
        return _assembled(modules)
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(
            f"{where}: this {type(modules.model).__name__} cannot be read ({one_line(error)})"
        ) from None


def check(model: nn.Module, where: str) -> None:
    """Check by the first layer of a model without weights (on the device meta) that its class can be read.

    Raises:
        UserError: it cannot.
    """
    modules = Modules(model, where, torch.float32, torch.device("meta"))
    family = family_of(modules)
    family.layer(modules, f"{family.layers}.0")


def _assembled(modules: Modules) -> Decoder:
    """The whole model."""
    family, config = family_of(modules), modules.find("config")
    kinds, layers = getattr(config, "layer_types", None), []
    for number in range(len(modules.get(family.layers))):
        at = f"{family.layers}.{number}"
        layer = family.layer(modules, at)
        if family.rotary and getattr(modules.get(f"{at}.{family.attention}"), "use_rope", True):
            layer.inverse_frequencies = modules.frequencies(family.rotary, kinds[number] if kinds else "")
        for name in ("query", "key", "up"):
            modules.set(at, f"size of {name}", len(getattr(layer, name)))
        layers.append(layer)
    known = modules.settings
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
    width = known["d_head"]
    return Decoder(
        config=DecoderConfig(
            n_layers=len(layers),
            d_model=embedding.shape[1],
            d_mlp=known["size of up"],
            n_heads=known["size of query"] // width,
            n_key_value_heads=known["size of key"] // width,
            d_head=width,
            vocabulary=len(embedding),
            gated=layers[0].gate is not None,
            norm_epsilon=known["norm_epsilon"],
            activation=known["activation"],
            parallel=known.get("parallel", False),
            attention_scale=known["attention_scale"],
            attention_softcap=known["attention_softcap"],
            logit_softcap=getattr(config, "final_logit_softcapping", None),
            embedding_scale=float(getattr(modules.get(family.embedding), "embed_scale", 1)),
            longest=_window(config) if positions is None else len(positions),
        ),
        embedding=embedding,
        layers=layers,
        final_norm=final_norm,
        unembedding=unembedding.float(),
        positions=positions,
    )
