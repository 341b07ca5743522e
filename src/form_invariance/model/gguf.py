"""Read a GGUF file with transformers, and write its model as a folder in the results, which later jobs map."""

import shutil
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.gguf_metadata import checked_metadata


def load_tokenizer(file: Path) -> Any:
    """The tokenizer of a GGUF file, as transformers reads it, with the rules of SmolLM2 and Llama 3 that it omits.

    Raises:
        UserError: it cannot be read.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    said = checked_metadata(file)
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
