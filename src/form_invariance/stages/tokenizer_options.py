"""The folder and the tokenizer of the model that a command's options name."""

import argparse
from pathlib import Path

from form_invariance.model import digests, tokenizers
from form_invariance.model.files import resolve
from form_invariance.problems.prompts import PromptTokenizer


def checked_folder(arguments: argparse.Namespace, *, weights: bool = True) -> Path:
    """The folder of the model, after a check of its files with --model-files, perhaps without the weights."""
    source, folder = resolve(arguments.model, arguments.revision), folder_of(arguments)
    if arguments.model_files:
        digests.check(folder, arguments.model_files, source if source.is_file() else None, weights=weights)
    return folder


def folder_of(arguments: argparse.Namespace) -> Path:
    """The model's folder. For a GGUF file: the imported folder next to --model-files, else the file itself."""
    source = resolve(arguments.model, arguments.revision)
    return (
        tokenizers.imported_folder(arguments.model_files) if source.is_file() and arguments.model_files else source
    )


def load_tokenizer_alone(arguments: argparse.Namespace) -> PromptTokenizer:
    """The tokenizer of the model."""
    return tokenizer_in(checked_folder(arguments, weights=False), arguments)


def tokenizer_in(folder: Path, arguments: argparse.Namespace) -> PromptTokenizer:
    """The tokenizer of a checked folder."""
    record = arguments.model_files
    kept = record is not None and tokenizers.kept_path(record).exists()
    return tokenizers.load_kept(folder, record) if kept else tokenizers.load_tokenizer(folder)
