"""Read a GGUF file with transformers, and write its model as a folder in the results, which later jobs map."""

import shutil
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


def _metadata(file: Path) -> Mapping[str, Any]:
    """The metadata of a file.

    Raises:
        UserError: the file is damaged, or transformers does not read what describes the model.
    """
    from transformers.integrations.gguf import read_gguf_metadata

    with in_one_sentence(f"{file} is not a complete GGUF file, so download it again"):
        said, tensors = read_gguf_metadata(str(file))
        unread = _unread(said["general.architecture"], said, tensors)
    if unread:
        raise UserError(
            f"{file}: transformers does not read {unread[0]}, so it would load a different model; use the "
            "model's Hugging Face folder"
        )
    return dict(said)


def _unread(family: str, said: Mapping[str, Any], tensors: Collection[str]) -> list[str]:
    """What describes the model, but is not read by transformers."""
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    from transformers.modeling_gguf_pytorch_utils import GGUF_TO_TRANSFORMERS_MAPPING

    own = {key.removeprefix(f"{family}."): one for key, one in said.items() if key.startswith(f"{family}.")}
    known = {*(GGUF_TO_TRANSFORMERS_MAPPING["config"].get(family) or own), *_WIDTHS}
    unread = [key for key in own if key not in known and own[key] != _ASSUMED.get(key)]
    unread += _WIDTHS[:1] if len({own[key] for key in _WIDTHS if key in own}) > 1 else ()
    stored = "rope_freqs.weight", f"blk.{own['block_count']}.attn_norm.weight"
    unread += [name for name in stored if name in tensors]
    if said.get("tokenizer.ggml.model") == "gpt2":
        pre = said.get("tokenizer.ggml.pre", "default")
        unread += [] if pre in (*GGUF_PRE_TOKENIZER_SPLITS, *_LIKE_GPT2) else [f"tokenizer.ggml.pre {pre!r}"]
    return unread


def load_tokenizer(file: Path) -> Any:
    """The tokenizer of a GGUF file, as transformers reads it, with the rules of SmolLM2 and Llama 3 that it omits.

    Raises:
        UserError: it cannot be read.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    said = _metadata(file)
    with in_one_sentence(f"{file} has no model and tokenizer that transformers reads"):
        tokenizer: Any = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        backend, pre = tokenizer.backend_tokenizer, said.get("tokenizer.ggml.pre")
        if pre == "smollm":
            digits = pre_tokenizers.Digits(individual_digits=True)
            backend.pre_tokenizer = pre_tokenizers.Sequence([digits, backend.pre_tokenizer])
        if pre == "llama-bpe":
            whole = backend.model
            whole.ignore_merges = True
            backend.model = whole
            tokenizer.add_bos_token = said.get("tokenizer.ggml.add_bos_token", True)
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
