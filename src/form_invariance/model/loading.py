"""Load a model: read its weights from safetensors into a `Decoder`. Pickles and remote code are never used."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.decoder import Decoder
from form_invariance.model.families import decoder_config
from form_invariance.model.family_defaults import DEFAULTS, tied
from form_invariance.model.files import read_config
from form_invariance.model.rotary import inverse_frequencies
from form_invariance.model.stored_weights import weight_files
from form_invariance.model.weight_layouts import LAYOUTS, Layout, Reader

_SIZES = ("num_key_value_heads", "head_dim", "n_inner", "n_positions")
"""Keys in config.json that give sizes and may be absent."""


@dataclass(frozen=True)
class Stored:
    """The configuration and the weights of a model, in a folder or in memory."""

    raw: dict[str, Any]
    """The content of config.json."""
    names: Collection[str]
    """Names of the weights."""
    tensor: Callable[[str, str, torch.dtype], Tensor]
    """The weight of a name on a device, in a precision; on "meta" its shape alone."""
    where: str
    """For messages, and so is the name of the configuration."""
    config: str = "its configuration"


def in_folder(folder: Path) -> Stored:
    """The model in a folder.

    Raises:
        UserError: a file is missing or damaged, or the weights are quantised.
    """
    _, raw = read_config(folder)
    files = weight_files(folder)
    opened: dict[tuple[Path, str], Any] = {}

    def tensor(name: str, device: str, dtype: torch.dtype) -> Tensor:
        path, only_shapes = files[name], device == "meta"
        with in_one_sentence(f"{path} cannot be read as safetensors"):
            # A file that is open for one device gives tensors of that device.
            if (path, device) not in opened:
                opened[path, device] = safe_open(path, framework="pt", device="cpu" if only_shapes else device)
            file = opened[path, device]
            if only_shapes:
                return torch.empty(file.get_slice(name).get_shape(), dtype=dtype, device="meta")
            stored: Tensor = file.get_tensor(name)
        return stored.to(dtype)

    return Stored(raw, files.keys(), tensor, f"model folder {folder}", str(folder / "config.json"))


class _Reader:
    """Reads weights by name, and records which were read."""

    def __init__(self, stored: Stored, dtype: torch.dtype, device: str) -> None:
        self._stored, self._dtype, self._device, self._family = stored, dtype, device, stored.raw["model_type"]
        self._layout = LAYOUTS[self._family]
        self._prefix = self._layout.embedding.split(".")[0] + "."
        self._absent = [key for key in DEFAULTS[self._family] if key not in stored.raw]
        self._used: set[str] = set()

    def __call__(self, name: str, *shape: int, optional: bool = False) -> Tensor | None:
        # In a checkpoint saved without its head, names do not have the prefix.
        stored = name if name in self._stored.names else name.removeprefix(self._prefix)
        if stored not in self._stored.names:
            if optional:
                return None
            reason = self._without("tie_word_embeddings") if name in self._layout.unembeddings else ""
            raise UserError(f"{self._stored.where}: weight {name!r} is missing{reason}")
        tensor = self._stored.tensor(stored, self._device, self._dtype)
        if tensor.shape != shape:
            raise UserError(
                f"{self._stored.where}: weight {stored!r} has shape {tuple(tensor.shape)}, but config.json asks "
                f"for {shape}{self._without(*_SIZES)}"
            )
        self._used.add(stored)
        return tensor

    def _without(self, *keys: str) -> str:
        """What a message adds if some of these keys are not in config.json."""
        absent = [key for key in keys if key in self._absent]
        return f" (not in config.json: {', '.join(absent)})" if absent else ""

    def check_all_read(self) -> None:
        """Check that every weight was read, except buffers, which are computed here."""
        unread = sorted(set(self._stored.names) - self._used)
        unknown = [name for name in unread if not self._layout.buffers.search(name)]
        if unknown:
            reason = self._without("attention_bias", "mlp_bias") if unknown[0].endswith(".bias") else ""
            raise UserError(
                f"{self._stored.where}: weight {unknown[0]!r} does not belong to a {self._family} model of this "
                "configuration, so it would be ignored; merge adapters into the weights, or correct "
                f"config.json{reason}"
            )


def check(folder: Path) -> None:
    """Check the names and shapes of a model's weights and its rotary embedding, without reading the weights.

    Raises:
        UserError: as `load` does, but not for numbers that cannot be read.
    """
    load(folder, device="meta")


def load(source: Path | Stored, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Decoder:
    """Load the model of a folder, or a stored one. On the device "meta", tensors have shapes and no numbers.

    Raises:
        UserError: a file or a weight is missing, damaged, of the wrong shape, or unknown; or the GPU is too small.
    """
    stored = in_folder(source) if isinstance(source, Path) else source
    if torch.device(device).type == "cuda":
        check_room(stored, dtype, torch.device(device))
    read = _Reader(stored, dtype, device)
    model = assemble(read, stored.raw, stored.config)
    read.check_all_read()
    return model


def check_room(stored: Stored, dtype: torch.dtype, device: torch.device) -> None:
    """Check that a GPU has room for a model's weights, before they are read.

    Raises:
        UserError: it has not.
    """
    needed = sum(stored.tensor(name, "meta", dtype).numel() for name in stored.names) * dtype.itemsize
    free, _ = torch.cuda.mem_get_info(device)
    if needed > free:
        half = "" if dtype.itemsize == 2 else "dtype: bfloat16 (half of that), "
        raise UserError(
            f"{stored.where}: its weights take {needed / 1e9:.1f} GB, but {device} has {free / 1e9:.1f} GB free; "
            f"a model must fit on one GPU: use {half}a larger GPU, or device: cpu"
        )


def _embeddings(read: Reader, layout: Layout, shape: tuple[int, int], is_tied: bool) -> tuple[Tensor, Tensor]:
    """The embedding and the unembedding, each (V, d).

    As in Hugging Face, tied ones are one weight only if a single one is stored, under either name.
    """
    *others, last = layout.unembeddings
    stored = (read(name, *shape, optional=True) for name in others)
    unembedding = next((matrix for matrix in stored if matrix is not None), None)
    if unembedding is None:
        unembedding = read(last, *shape, optional=is_tied)
    embedding = read(layout.embedding, *shape, optional=is_tied and unembedding is not None)
    return (unembedding if embedding is None else embedding), (embedding if unembedding is None else unembedding)


def assemble(read: Reader, raw: dict[str, Any], where: str) -> Decoder:
    """Build a model from its weights.

    Args:
        raw: the content of config.json.
        where: path of config.json, for messages.
    """
    config, layout = decoder_config(raw, where), LAYOUTS[raw["model_type"]]
    layers = [layout.layer(read, config, index) for index in range(config.n_layers)]
    embedding, unembedding = _embeddings(read, layout, (config.vocabulary, config.d_model), tied(raw))
    for index, layer in enumerate(layers):
        inverse = inverse_frequencies(raw, config, index, where)
        layer.inverse_frequencies = None if inverse is None else inverse.to(embedding.device)
    return Decoder(
        config=config,
        embedding=embedding,
        layers=layers,
        final_norm=layout.norm(read, layout.final_norm, config.d_model),
        unembedding=unembedding.float(),
        positions=read(layout.positions, config.longest or 0, config.d_model) if layout.positions else None,
    )
