"""The tokenizer of the model that a command's options name; nothing here imports torch."""

import argparse
from collections.abc import Collection
from pathlib import Path

from form_invariance.model import digests
from form_invariance.model.files import load_tokenizer, resolve
from form_invariance.problems.prompts import PromptTokenizer


def checked_folder(arguments: argparse.Namespace, only: Collection[str] = ()) -> Path:
    """The folder of the model, whose files (`only` these, or all) are those that --model-files records."""
    folder = resolve(arguments.model, arguments.revision)
    if arguments.model_files:
        digests.check(folder, arguments.model_files, only)
    return folder


def load_tokenizer_alone(arguments: argparse.Namespace) -> PromptTokenizer:
    """The tokenizer of the model."""
    return load_tokenizer(checked_folder(arguments, digests.TOKENIZER))
