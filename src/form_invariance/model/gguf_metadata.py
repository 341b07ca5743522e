"""The metadata of a GGUF file, refused where transformers would fail on it or load a different model."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence

_LIKE_GPT2 = ("gpt-2", "default", "smollm")
"""Values of `tokenizer.ggml.pre` that transformers does not list and reads like GPT-2's."""
_ASSUMED = {
    "attention.sliding_window_pattern": 6,
    "rope.freq_base_swa": 10_000,
    "rope.scaling.type": "none",
    "rope.scaling.factor": 1,
}
"""Values that transformers assumes for keys that it does not read."""
_WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
_SIZES = (
    *("embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv", "vocab_size"),
    *_WIDTHS,
)
_TOKENS = ("bos", "eos", "padding", "unknown")
_LARGEST = 2**20
"""Limit of a size; a larger one is a mistake."""


def checked_metadata(file: Path) -> dict[str, Any]:
    """The metadata of a file.

    Raises:
        UserError: the file is damaged, a number is impossible, or transformers does not read a key that describes
            the model.
    """
    from transformers.integrations.gguf import read_gguf_metadata

    with in_one_sentence(f"{file} is not a complete GGUF file, so download it again"):
        said, tensors = read_gguf_metadata(str(file))
        family = said["general.architecture"]
    own = {key.removeprefix(f"{family}."): one for key, one in said.items() if key.startswith(f"{family}.")}
    _check_numbers(file, family, said, tensors)
    for unread in _unread(family, own, said, tensors):
        raise UserError(
            f"{file}: transformers does not read {unread}, so it would load a different model; use the "
            "model's Hugging Face folder"
        )
    return dict(said)


def _check_numbers(file: Path, family: str, said: Mapping[str, Any], tensors: Collection[str]) -> None:
    """Check the numbers that the model and the tokenizer are built from. A list of texts is read as its length."""
    if not (tokens := said.get("tokenizer.ggml.tokens")):
        raise UserError(f"{file} has no tokenizer (tokenizer.ggml.tokens); use the model's Hugging Face folder")
    blocks = {name.split(".")[1] for name in tensors if name.startswith("blk.")}
    limits = {f"{family}.{size}": (1, _LARGEST) for size in _SIZES}
    limits |= {f"{family}.block_count": (len(blocks), len(blocks)), f"{family}.rope.freq_base": (1, 10**12)}
    limits |= {f"{family}.attention.layer_norm_rms_epsilon": (0, 1)}
    limits |= {f"tokenizer.ggml.{name}_token_id": (0, tokens - 1) for name in _TOKENS}
    for key, (least, most) in limits.items():
        value = said.get(key, most)
        if not (isinstance(value, int | float) and least <= value <= most):
            raise UserError(f"{file}: {key} must be a number from {least} to {most}, not {value!r:.60}")
    heads, groups = (said.get(f"{family}.attention.{key}") for key in ("head_count", "head_count_kv"))
    if heads and groups and heads % groups:
        raise UserError(f"{file}: head_count, {heads}, must be a multiple of head_count_kv, {groups}")


def _unread(family: str, own: Mapping[str, Any], said: Mapping[str, Any], tensors: Collection[str]) -> list[str]:
    """What describes the model, but is not read by transformers."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    from transformers.modeling_gguf_pytorch_utils import GGUF_TO_TRANSFORMERS_MAPPING

    known = {*(GGUF_TO_TRANSFORMERS_MAPPING["config"].get(family) or own), *_WIDTHS}
    unread = [key for key in own if key not in known and own[key] != _ASSUMED.get(key)]
    unread += _WIDTHS[:1] if len({own[key] for key in _WIDTHS if key in own}) > 1 else ()
    unread += ["rope_freqs.weight"] if "rope_freqs.weight" in tensors else []
    if said.get("tokenizer.ggml.model") == "gpt2":
        pre = said.get("tokenizer.ggml.pre", "default")
        unread += [] if pre in (*GGUF_PRE_TOKENIZER_SPLITS, *_LIKE_GPT2) else [f"tokenizer.ggml.pre {pre!r}"]
    return unread
