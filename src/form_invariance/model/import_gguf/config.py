"""config.json of a GGUF file's model. A file that says more about the forward pass is refused. No torch here."""

from collections.abc import Callable
from typing import Any

from form_invariance.errors import UserError
from form_invariance.model.import_gguf.file import GgufFile

_SIZES = {
    "attention.head_count": "num_attention_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
}
"""Names in config.json of the keys that every file must have."""

_HEAD_WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
"""Keys that must all be the width of a head, where a file has them."""

_KNOWN = {*_SIZES, *_HEAD_WIDTHS, "attention.head_count_kv", "rope.freq_base", "vocab_size"}

_GEMMA3_KNOWN = {
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "final_logit_softcapping",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "rope.scaling.type",
}

_GEMMA3_27B_LAYERS = 62
"""No key gives the scale of Gemma 3's queries. llama.cpp knows the exception, the model of 27 B, by this."""


def _refuse(file: GgufFile, what: str) -> UserError:
    return UserError(
        f"{file.path}: {what} has no place in the config.json of a {file.architecture} model, so the imported "
        "model would compute something else; use the model's Hugging Face folder instead"
    )


def _head_width(file: GgufFile) -> int:
    widths = {key: file.size(key) for key in _HEAD_WIDTHS if file.size(key) is not None}
    width = int(next(iter(widths.values()), file.size("embedding_length") // file.size("attention.head_count")))
    for key, value in widths.items():
        if value != width:
            raise _refuse(file, f"{key} {value} with heads of width {width}")
    return width


def _rope(file: GgufFile) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": file.size("rope.freq_base") or 10_000.0}


def _llama(file: GgufFile) -> dict[str, Any]:
    """Llama, and the architectures with the same keys."""
    return {"model_type": file.architecture, "rope_parameters": _rope(file)}


def _gemma3(file: GgufFile) -> dict[str, Any]:
    """Gemma 3: local layers with a sliding window and a rotary embedding of their own among global ones."""
    window, layers = file.size("attention.sliding_window"), file.size("block_count")
    pattern = file.size("attention.sliding_window_pattern") or 6
    if not window:
        local = [False] * layers
    elif isinstance(pattern, list):
        local = pattern
    else:
        local = [(layer + 1) % pattern != 0 for layer in range(layers)]
    rope, scaling = _rope(file), file.size("rope.scaling.type")
    if scaling == "linear":
        rope |= {"rope_type": "linear", "factor": file.size("rope.scaling.factor")}
    elif scaling not in (None, "none"):
        raise _refuse(file, f"'gemma3.rope.scaling.type' {scaling!r}")
    scale = file.size("embedding_length") // file.size("attention.head_count")
    return {
        "model_type": "gemma3_text",
        "rope_parameters": {
            "full_attention": rope,
            "sliding_attention": _rope(file) | {"rope_theta": file.size("rope.freq_base_swa") or 10_000.0},
        },
        "layer_types": ["sliding_attention" if sliding else "full_attention" for sliding in local],
        # transformers wants a window even where no layer has it.
        "sliding_window": window or file.size("context_length"),
        "query_pre_attn_scalar": scale if layers == _GEMMA3_27B_LAYERS else _head_width(file),
        "final_logit_softcapping": file.size("final_logit_softcapping") or None,
    }


_ARCHITECTURES: dict[str, tuple[Callable[[GgufFile], dict[str, Any]], set[str]]] = {
    "llama": (_llama, _KNOWN),
    "qwen2": (_llama, _KNOWN),
    "qwen3": (_llama, _KNOWN),
    "gemma3": (_gemma3, _KNOWN | _GEMMA3_KNOWN),
}
"""What config.json says besides the sizes, and the keys that are understood, by architecture."""


def model_config(file: GgufFile) -> dict[str, Any]:
    """The content of config.json: everything that the file says about the forward pass.

    Raises:
        UserError: the architecture, or a setting of it, cannot be imported.
    """
    if file.architecture not in _ARCHITECTURES:
        raise UserError(
            f"{file.path}: the architecture {file.architecture!r} cannot be imported, only "
            f"{', '.join(_ARCHITECTURES)}; use the model's Hugging Face folder instead"
        )
    if file.fields.get("split.count", 0) > 1:
        raise UserError(f"{file.path} is one of several parts; join them with llama.cpp's 'gguf-split --merge'")
    further, known = _ARCHITECTURES[file.architecture]
    prefix = f"{file.architecture}."
    unknown = sorted(key for key in file.fields if key.startswith(prefix) and key[len(prefix) :] not in known)
    # Llama 3.1 and later: the factors are a tensor, from which the settings in config.json cannot be recovered.
    unknown += [name for name in ("rope_freqs.weight",) if name in file.tensors]
    if unknown:
        raise _refuse(file, repr(unknown[0]))
    missing = [prefix + key for key in _SIZES if file.size(key) is None]
    if missing:
        raise UserError(f"{file.path}: the key {missing[0]} is missing; download the file again")
    return {
        **{name: file.size(key) for key, name in _SIZES.items()},
        "num_key_value_heads": file.size("attention.head_count_kv") or file.size("attention.head_count"),
        "head_dim": _head_width(file),
        "vocab_size": file.size("vocab_size") or len(file.tokenizer("tokens", ())),
        # llama.cpp writes the unembedding only where it is not the embedding.
        "tie_word_embeddings": "output.weight" not in file.tensors,
        **{
            f"{name}_token_id": file.tokenizer(f"{key}_token_id")
            for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
        },
        **further(file),
    }
