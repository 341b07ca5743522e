"""Read a GGUF file. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file: its metadata by key, and its tensors by name."""

    path: Path
    fields: dict[str, Any]
    tensors: dict[str, Any]
    """`gguf.gguf_reader.ReaderTensor`: quantised data and its type."""

    @property
    def architecture(self) -> str:
        """The first part of the keys that give the model's sizes."""
        return str(self.fields.get("general.architecture"))

    def size(self, key: str) -> Any:
        """One of the model's sizes; None if the file does not give it."""
        return self.fields.get(f"{self.architecture}.{key}")

    def tokenizer(self, key: str, default: Any = None) -> Any:
        """A setting of the tokenizer."""
        return self.fields.get(f"tokenizer.ggml.{key}", default)


def read_file(path: Path) -> GgufFile:
    """Open a GGUF file. The tensors are read when they are used.

    Raises:
        UserError: the file does not exist, is not GGUF or is incomplete; or the package gguf is missing.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file; give a .gguf file")
    try:
        from form_invariance.model.import_gguf.reader import Reader
    except ImportError:
        raise UserError(
            f"{path} cannot be read without the Python package gguf; install it with 'pip install gguf'"
        ) from None
    with in_one_sentence(f"{path} is not a complete GGUF file, so download it again"):
        reader = Reader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        return GgufFile(path, fields, {tensor.name: tensor for tensor in reader.tensors})
