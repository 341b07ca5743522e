"""Load a model: read its weights from safetensors into a `Decoder`. Pickles and remote code are never used."""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.decoder import Decoder
from form_invariance.model.families import decoder_config, tied
from form_invariance.model.files import read_config, weight_files
from form_invariance.model.rotary import inverse_frequencies
from form_invariance.model.weight_layouts import LAYOUTS, Reader

# Older checkpoints store rotary frequencies and causal masks, which are computed here.
_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|\b(attn|attention)\.(masked_)?bias)$")


class _Reader:
    """Reads weights by name, and records which were read."""

    def __init__(self, folder: Path, prefix: str, dtype: torch.dtype, device: str) -> None:
        self._folder, self._prefix, self._dtype, self._device = folder, prefix, dtype, device
        self._files = weight_files(folder)
        self._opened: dict[Path, Any] = {}
        self._used: set[str] = set()

    def __call__(self, name: str, *shape: int, optional: bool = False) -> Tensor | None:
        # In a checkpoint saved without its head, names do not have the prefix.
        stored = name if name in self._files else name.removeprefix(self._prefix)
        if stored not in self._files:
            if optional:
                return None
            raise UserError(f"model folder {self._folder}: weight {name!r} is missing")
        path, only_shapes = self._files[stored], self._device == "meta"
        with in_one_sentence(f"{path} cannot be read as safetensors"):
            if path not in self._opened:
                where = "cpu" if only_shapes else self._device
                self._opened[path] = safe_open(path, framework="pt", device=where)
            file = self._opened[path]
            tensor: Tensor = (
                torch.empty(file.get_slice(stored).get_shape(), device="meta")
                if only_shapes
                else file.get_tensor(stored)
            )
        if tensor.shape != shape:
            raise UserError(
                f"{path}: weight {stored!r} has shape {tuple(tensor.shape)}, but config.json asks for {shape}"
            )
        self._used.add(stored)
        return tensor.to(self._dtype)

    def check_all_read(self, family: str, unembedding: str) -> None:
        """Check that every weight was read, except buffers and a stored copy of a tied unembedding."""
        unread = set(self._files) - self._used - {unembedding}
        unknown = sorted(name for name in unread if not _BUFFERS.search(name))
        if unknown:
            raise UserError(
                f"model folder {self._folder}: weight {unknown[0]!r} does not belong to a {family} model of this "
                "configuration, so it would be ignored; merge adapters into the weights, or correct config.json"
            )


def check(folder: Path) -> None:
    """Check the names and shapes of a model's weights and its rotary embedding, without reading the weights.

    Raises:
        UserError: as `load` does, but not for numbers that cannot be read.
    """
    load(folder, device="meta")


def load(folder: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Decoder:
    """Load the model in a folder. On the device "meta", tensors have shapes and no numbers.

    Raises:
        UserError: a file or a weight is missing, damaged, of the wrong shape, or unknown.
    """
    _, raw = read_config(folder)
    layout = LAYOUTS[raw["model_type"]]
    read = _Reader(folder, layout.embedding.split(".")[0] + ".", dtype, device)
    model = assemble(read, raw, str(folder / "config.json"))
    read.check_all_read(raw["model_type"], layout.unembedding)
    return model


def assemble(read: Reader, raw: dict[str, Any], where: str) -> Decoder:
    """Build a model from its weights.

    Args:
        raw: the content of config.json.
        where: path of config.json, for messages.
    """
    config, layout = decoder_config(raw, where), LAYOUTS[raw["model_type"]]
    layers = [layout.layer(read, config, index) for index in range(config.n_layers)]
    shape = (config.vocabulary, config.d_model)
    embedding = read(layout.embedding, *shape)
    for index, layer in enumerate(layers):
        inverse = inverse_frequencies(raw, config, index, where)
        layer.inverse_frequencies = None if inverse is None else inverse.to(embedding.device)
    return Decoder(
        config=config,
        embedding=embedding,
        layers=layers,
        final_norm=layout.norm(read, layout.final_norm, config.d_model),
        unembedding=(embedding if tied(raw) else read(layout.unembedding, *shape)).float(),
        positions=read(layout.positions, config.longest or 0, config.d_model) if layout.positions else None,
    )
