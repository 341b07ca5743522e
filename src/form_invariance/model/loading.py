"""Loading a model's weights from a Hugging Face folder: safetensors alone, no pickle, no remote code."""

import re
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.decoder import Decoder
from form_invariance.model.families import tied
from form_invariance.model.files import read_config, weight_files
from form_invariance.model.rotary import inverse_frequencies
from form_invariance.model.weight_layouts import LAYOUTS

# Buffers that older checkpoints carry: rotary frequencies and causal masks, which are computed here.
_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|\b(attn|attention)\.(masked_)?bias)$")


class _Reader:
    """Reads weights by name, and remembers which."""

    def __init__(self, folder: Path, prefix: str, dtype: torch.dtype, device: str) -> None:
        self._folder, self._prefix, self._dtype, self._device = folder, prefix, dtype, device
        self._files = weight_files(folder)
        # Tensors of the device meta have shapes and no numbers: the files' headers tell all of these.
        self._shapes_alone = device == "meta"
        self._opened: dict[Path, Any] = {}
        self._used: set[str] = set()

    def _stored(self, name: str) -> str:
        """The name in the files: a checkpoint that was saved without its head lacks the prefix."""
        return name if name in self._files else name.removeprefix(self._prefix)

    def __call__(self, name: str, *shape: int) -> Tensor:
        stored = self._stored(name)
        if stored not in self._files:
            raise UserError(f"model folder {self._folder}: weight {name!r} is missing")
        path = self._files[stored]
        with in_one_sentence(f"{path} cannot be read as safetensors"):
            if path not in self._opened:
                where = "cpu" if self._shapes_alone else self._device
                self._opened[path] = safe_open(path, framework="pt", device=where)
            tensor: Tensor
            if self._shapes_alone:
                tensor = torch.empty(self._opened[path].get_slice(stored).get_shape(), device="meta")
            else:
                tensor = self._opened[path].get_tensor(stored)
        if tensor.shape != shape:
            raise UserError(
                f"{path}: weight {stored!r} has shape {tuple(tensor.shape)}, but config.json asks for {shape}"
            )
        self._used.add(stored)
        return tensor.to(self._dtype)

    def optional(self, name: str, *shape: int) -> Tensor | None:
        return self(name, *shape) if self._stored(name) in self._files else None

    def check_all_read(self, family: str, *known: str) -> None:
        """Check that no weight was left out but buffers and those `known`."""
        left = set(self._files) - self._used - set(known)
        unknown = sorted(name for name in left if not _BUFFERS.search(name))
        if unknown:
            raise UserError(
                f"model folder {self._folder}: weight {unknown[0]!r} is none that a {family} model of this "
                "configuration has; it would be left out, and the model would not be the one that was trained"
            )


def check(folder: Path) -> None:
    """Check names and shapes of a model's weights and its rotary embedding, without reading the weights.

    Raises:
        UserError: as `load` does, but for numbers that cannot be read.
    """
    load(folder, device="meta")


def load(folder: Path, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Decoder:
    """Load the weights of a model folder.

    Raises:
        UserError: a file or a weight is missing, broken, of the wrong shape, or unknown.
    """
    config, raw = read_config(folder)
    layout = LAYOUTS[raw["model_type"]]
    prefix = layout.embedding.split(".")[0] + "."
    read = _Reader(folder, prefix, dtype, device)
    layers = [layout.layer(read, config, index) for index in range(config.n_layers)]
    for index, layer in enumerate(layers):
        inverse = inverse_frequencies(raw, config, index, str(folder / "config.json"))
        layer.inverse_frequencies = None if inverse is None else inverse.to(device)
    shape = (config.vocabulary, config.d_model)
    embedding = read(layout.embedding, *shape)
    model = Decoder(
        config=config,
        embedding=embedding,
        layers=layers,
        final_norm=layout.norm(read, layout.final_norm, config.d_model),
        unembedding=(embedding if tied(raw) else read(layout.unembedding, *shape)).float(),
        positions=read(layout.positions, config.longest or 0, config.d_model) if layout.positions else None,
    )
    read.check_all_read(raw["model_type"], layout.unembedding)
    return model
