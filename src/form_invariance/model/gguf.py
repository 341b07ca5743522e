"""Read a GGUF file with transformers, and write its model as a folder in the results, which later jobs map."""

import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence

_LIKE_GPT2 = ("gpt-2", "default", "smollm")
"""Values of `tokenizer.ggml.pre` that transformers does not list and reads like GPT-2's."""
_LIKE_LLAMA3 = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"),
    "tekken",
)
"""Values for which llama.cpp takes a word of the vocabulary whole, and adds BOS unless the file says otherwise."""
_ASSUMED = {
    "attention.sliding_window_pattern": 6,
    "rope.freq_base_swa": 10_000,
    "rope.scaling.type": "none",
    "rope.scaling.factor": 1,
}
"""Values that transformers assumes for keys that it does not read."""
_WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
_SPACE = "ggml.add_space_prefix"
_TOKENIZER = {"ggml.remove_extra_whitespaces": False, "ggml.add_sep_token": False}
"""The same for keys after `tokenizer.`, apart from `_SPACE`, which this module reads."""
_NO_TEXT = re.compile(r"chat_template.*|ggml\.\w+_token_id")
"""Keys after `tokenizer.` that do not change how a text is encoded."""
_PART = re.compile(r"-\d{5}-of-(?!00001)\d{5}\.gguf", re.IGNORECASE)


def _metadata(file: Path) -> tuple[Mapping[str, Any], Collection[str]]:
    """The metadata of a file, and the names of its tensors.

    Raises:
        UserError: the file is damaged or a part of a model, or transformers does not read all that describes it.
    """
    from transformers.integrations.gguf import read_gguf_metadata

    with in_one_sentence(f"{file} is not a complete GGUF file, so download it again"):
        metadata, tensors = read_gguf_metadata(str(file))
        unread = [*_unread(metadata, tensors), *_unread_tokenizer(metadata)]
    if metadata.get("split.count", 0) > 1 or _PART.search(file.name):
        raise UserError(
            f"{file} is a part of a model; join all parts with llama.cpp's 'llama-gguf-split --merge', and give "
            "the whole file"
        )
    if unread:
        raise _not_read(file, unread[0])
    return metadata, tensors


def _not_read(file: Path, what: str) -> UserError:
    """The refusal of a file for a key or a tensor."""
    return UserError(
        f"{file}: transformers does not read {what}, so it would load a different model; use the model's Hugging "
        "Face folder"
    )


def _of_family(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file's architecture, without its name."""
    return _below(f"{metadata['general.architecture']}.", metadata)


def _below(prefix: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The keys with a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}


def _unread(metadata: Mapping[str, Any], tensors: Collection[str]) -> list[str]:
    """Keys and tensors that describe the model, but that transformers does not read."""
    from transformers.modeling_gguf_pytorch_utils import GGUF_TO_TRANSFORMERS_MAPPING

    settings = _of_family(metadata)
    read_keys = GGUF_TO_TRANSFORMERS_MAPPING["config"].get(metadata["general.architecture"]) or settings
    unread = [key for key in settings if key not in (*read_keys, *_WIDTHS) and settings[key] != _ASSUMED.get(key)]
    if len({settings[key] for key in _WIDTHS if key in settings}) > 1:
        unread.append(_WIDTHS[0])
    stored = "rope_freqs.weight", f"blk.{settings['block_count']}.attn_norm.weight"
    return [*unread, *(name for name in stored if name in tensors)]


def _unread_tokenizer(metadata: Mapping[str, Any]) -> list[str]:
    """Keys that describe the tokenizer, but that neither transformers nor `load_tokenizer` reads."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_PRE_TOKENIZER_SPLITS,
        GGUF_TOKENIZER_MAPPING,
    )

    settings = _below("tokenizer.", metadata)
    read_keys = {key for part in GGUF_TOKENIZER_MAPPING.values() for key in part} - {"ggml.precompiled_charsmap"}
    read_keys |= {key for key in settings if _NO_TEXT.fullmatch(key)}
    unread = [key for key in settings if key not in read_keys and settings[key] != _TOKENIZER.get(key)]
    kind, pre = settings.get("ggml.model"), settings.get("ggml.pre", "default")
    # Gemma's tokenizer adds no space.
    spaced = kind == "llama" and not metadata["general.architecture"].startswith("gemma")
    if settings.get(_SPACE) and not spaced:
        unread.append(_SPACE)
    pres = {"gpt2": (*GGUF_PRE_TOKENIZER_SPLITS, *_LIKE_GPT2), "llama": ("default",)}
    if kind not in (None, *pres):
        unread.append(f"ggml.model {kind!r}")
    if pre not in pres.get(str(kind), (pre,)):
        unread.append(f"ggml.pre {pre!r}")
    return [f"tokenizer.{key}" for key in unread]


def options(file: Path) -> dict[str, Any]:
    """Arguments with which transformers loads the model of a file, biases included.

    Raises:
        UserError: as `_metadata`.
    """
    metadata, tensors = _metadata(file)
    arguments: dict[str, Any] = {"gguf_file": file.name}
    if metadata["general.architecture"] == "llama":
        biases = {"attention_bias": "blk.0.attn_q.bias", "mlp_bias": "blk.0.ffn_up.bias"}
        arguments |= {key: True for key, name in biases.items() if name in tensors}
    return arguments


def check_loaded(file: Path, model: Any) -> None:
    """Check that every tensor of a file became a weight, and that the number of rotated dimensions is the file's.

    transformers itself reports weights without a tensor.

    Raises:
        UserError: a tensor was left out, or another number of dimensions is rotated.
    """
    from transformers import modeling_gguf_pytorch_utils as legacy
    from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS

    metadata, tensors = _metadata(file)
    family, settings = metadata["general.architecture"], _of_family(metadata)
    if family not in GGUF_ARCHS:  # for these, transformers itself reports tensors without a weight
        processor = legacy.TENSOR_PROCESSORS.get(family, legacy.TensorProcessor)(model.config.to_dict())
        if left := {*tensors} - {*legacy.get_gguf_hf_weights_map(model, processor)}:
            raise _not_read(file, min(left))
    rotated = {2 * len(buffer) for name, buffer in model.named_buffers() if name.endswith("inv_freq")}
    heads = settings["attention.head_count"]
    width = settings.get("attention.key_length") or settings["embedding_length"] // heads
    if rotated - {settings.get("rope.dimension_count", width)}:
        raise _not_read(file, "rope.dimension_count")


def load_tokenizer(file: Path) -> Any:
    """The tokenizer of a GGUF file, as transformers reads it, and with the rules that transformers omits.

    Those are rules of SmolLM2, of Llama 3, and of SentencePiece without a space before the text.

    Raises:
        UserError: it cannot be read.
    """
    from tokenizers import decoders, normalizers, pre_tokenizers
    from transformers import AutoTokenizer

    metadata, _ = _metadata(file)
    with in_one_sentence(f"{file} has no model and tokenizer that transformers reads"):
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        backend, pre = tokenizer.backend_tokenizer, metadata.get("tokenizer.ggml.pre")
        if pre == "smollm":
            digits = pre_tokenizers.Digits(individual_digits=True)
            backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
        if pre in _LIKE_LLAMA3:
            whole = backend.model
            whole.ignore_merges = True
            backend.model = whole
            tokenizer.add_bos_token = metadata.get("tokenizer.ggml.add_bos_token", True)
        if metadata.get("tokenizer.ggml.model") == "llama" and not metadata.get(f"tokenizer.{_SPACE}", True):
            backend.normalizer, backend.pre_tokenizer = normalizers.Replace(" ", "▁"), None
            parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
            backend.decoder = decoders.Sequence(parts)
    return tokenizer


def write_folder(file: Path, folder: Path) -> None:
    """Write a GGUF file's model and tokenizer as a Hugging Face folder, in float32, completely or not at all.

    Raises:
        UserError: the file cannot be read, or the folder cannot be written.
    """
    import torch

    from form_invariance.model.loading import in_transformers, quiet

    tokenizer = load_tokenizer(file)
    model, part = in_transformers(file, torch.float32, "cpu"), folder.with_name(f".{folder.name}.part")
    try:
        for old in (part, folder):
            shutil.rmtree(old, ignore_errors=True)
        with quiet():
            model.save_pretrained(part)
            tokenizer.save_pretrained(part)
        part.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from None
