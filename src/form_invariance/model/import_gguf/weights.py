"""Take a model's weights from a GGUF file, and compare those of the written folder with the file's tensors."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from form_invariance.errors import UserError
from form_invariance.model.families import DecoderConfig
from form_invariance.model.files import read_config
from form_invariance.model.import_gguf.file import GgufFile
from form_invariance.model.stored_weights import weight_files
from form_invariance.tables.progress import Progress


def places(file: GgufFile, weights: list[str], n_layers: int) -> dict[str, str]:
    """The name of each weight's tensor in the file; the two sides must name the same tensors.

    Raises:
        UserError: a tensor is missing, or has no place in the folder.
    """
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    (architecture,) = (key for key, name in MODEL_ARCH_NAMES.items() if name == file.architecture)
    names = get_tensor_name_map(architecture, n_layers)
    places = {}
    for weight in weights:
        stem, _, kind = weight.rpartition(".")
        places[weight] = f"{names.get_name(stem)}.{kind}"
    missing = sorted(set(places.values()) - set(file.tensors))
    if missing:
        raise UserError(f"{file.path}: tensor {missing[0]!r} is missing; download the file again")
    left = sorted(set(file.tensors) - set(places.values()))
    if left:
        raise UserError(
            f"{file.path}: tensor {left[0]!r} has no place in a {file.architecture} model of transformers, so the "
            "imported model would compute something else; use the model's Hugging Face folder instead"
        )
    return places


def _turned_heads(file: GgufFile, tensor: str, config: DecoderConfig) -> int | None:
    """The number of heads in a tensor whose rows llama.cpp arranges in its own way; None for other tensors.

    The rotary embedding turns pairs of dimensions: (2i, 2i + 1) in llama.cpp, (i, i + D/2) in Hugging Face. Of the
    architectures that can be imported, llama.cpp arranges only Llama's queries and keys by pairs.
    """
    heads = {"attn_q": config.n_heads, "attn_k": config.n_key_value_heads}
    return heads.get(tensor.split(".")[-2]) if file.architecture == "llama" else None


def _around_one(file: GgufFile, tensor: str) -> bool:
    """Whether a tensor is a norm of Gemma, to which llama.cpp has added the one that Hugging Face adds later."""
    return file.architecture == "gemma3" and tensor.endswith("norm.weight")


def _dequantised(file: GgufFile, tensor: str) -> np.ndarray:
    from gguf import dequantize

    stored = file.tensors[tensor]
    values: np.ndarray = dequantize(stored.data, stored.tensor_type)
    return values


def _as_hugging_face(file: GgufFile, tensor: str, config: DecoderConfig) -> np.ndarray:
    """A tensor of the file as Hugging Face has it, float32, in memory of its own."""
    values = _dequantised(file, tensor)
    if heads := _turned_heads(file, tensor, config):
        return values.reshape(heads, -1, 2, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)
    return values - 1 if _around_one(file, tensor) else np.array(values)


def read_weights(file: GgufFile, names: dict[str, str], config: DecoderConfig) -> dict[str, np.ndarray]:
    """Weights as Hugging Face has them, float32, by name.

    Args:
        names: the name of each weight's tensor in the file.
    """
    progress, weights = Progress(sum(file.tensors[name].n_elements for name in names.values()), "weights read"), {}
    for weight, tensor in names.items():
        weights[weight] = _as_hugging_face(file, tensor, config)
        progress.add(weights[weight].size)
    return weights


def _as_stored(file: GgufFile, tensor: str, weight: np.ndarray, config: DecoderConfig) -> np.ndarray:
    """A weight of Hugging Face as llama.cpp's conversion writes it, float32."""
    if heads := _turned_heads(file, tensor, config):
        return weight.reshape(heads, 2, -1, weight.shape[-1]).swapaxes(1, 2).reshape(weight.shape)
    return weight + 1 if _around_one(file, tensor) else weight


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    same = a.dtype == b.dtype == np.float32 and a.shape == b.shape
    return same and bool(np.array_equal(np.ascontiguousarray(a).view(np.uint32), b.view(np.uint32)))


def _weights(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Name and values of every weight in the folder."""
    by_path: dict[Path, list[str]] = defaultdict(list)
    for weight, path in weight_files(folder).items():
        by_path[path].append(weight)
    for path, weights in by_path.items():
        opened: Any
        with safe_open(path, framework="numpy") as opened:
            for weight in weights:
                yield weight, opened.get_tensor(weight)


def check_weights(file: GgufFile, folder: Path) -> None:
    """Check that llama.cpp's conversion of the folder's weights gives exactly the file's tensors, to the bit.

    Raises:
        UserError: with the first weight that differs.
    """
    config, _ = read_config(folder)
    names = places(file, sorted(weight_files(folder)), config.n_layers)
    progress = Progress(sum(tensor.n_elements for tensor in file.tensors.values()), "weights compared")
    for weight, values in _weights(folder):
        tensor = names[weight]
        if not _same_bits(_as_stored(file, tensor, values, config), _dequantised(file, tensor)):
            raise UserError(
                f"{file.path}: tensor {tensor!r} as the package gguf dequantises it is not what llama.cpp makes "
                f"of {weight!r} in the imported model; use the model's Hugging Face folder instead"
            )
        progress.add(values.size)
