"""Read a GGUF file, and refuse a model that a Hugging Face folder would not reproduce. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError, in_one_sentence

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""The architectures whose arrangement of weights in GGUF is known to `weights`."""

_READ = frozenset(
    {
        "attention.head_count",
        "attention.head_count_kv",
        "attention.layer_norm_rms_epsilon",
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "rope.freq_base",
        "vocab_size",
    }
)
"""The keys of an architecture that transformers writes into config.json."""

HEAD_WIDTHS = ("attention.key_length", "attention.value_length", "rope.dimension_count")
"""Further keys of an architecture, which must all be the width of a head."""


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


def read_file(path: Path) -> GgufFile:
    """Open a GGUF file. The tensors are read when they are used.

    Raises:
        UserError: the file does not exist, is not GGUF or is incomplete; or the package gguf is missing.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file; give a .gguf file")
    try:
        from gguf import GGUFReader
    except ImportError:
        raise UserError(
            f"{path} cannot be read without the Python package gguf; install it with 'pip install gguf'"
        ) from None
    with in_one_sentence(f"{path} is not a complete GGUF file, so download it again"):
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        return GgufFile(path, fields, {tensor.name: tensor for tensor in reader.tensors})


def check_settings(file: GgufFile) -> None:
    """Check that config.json can say everything that the file says about the forward pass.

    Raises:
        UserError: the architecture, or a setting of it, cannot be imported.
    """
    if file.architecture not in ARCHITECTURES:
        raise UserError(
            f"{file.path}: the architecture {file.architecture!r} cannot be imported, only "
            f"{', '.join(ARCHITECTURES)}; use the model's Hugging Face folder instead"
        )
    if file.fields.get("split.count", 0) > 1:
        raise UserError(f"{file.path} is one of several parts; join them with llama.cpp's 'gguf-split --merge'")
    prefix = f"{file.architecture}."
    known = {prefix + key for key in (*_READ, *HEAD_WIDTHS)}
    unknown = sorted(key for key in file.fields if key.startswith(prefix) and key not in known)
    # Llama 3.1 and later: the factors are a tensor, from which the settings in config.json cannot be recovered.
    unknown += [name for name in ("rope_freqs.weight",) if name in file.tensors]
    if unknown:
        raise UserError(
            f"{file.path}: {unknown[0]!r} has no place in the config.json of a {file.architecture} model, so the "
            "imported model would compute something else; use the model's Hugging Face folder instead"
        )
