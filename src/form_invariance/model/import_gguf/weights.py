"""Compare the weights of a written folder with the GGUF file's, dequantised by the package gguf."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from form_invariance.errors import UserError
from form_invariance.model.families import DecoderConfig
from form_invariance.model.files import read_config, weight_files
from form_invariance.model.import_gguf.file import HEAD_WIDTHS, GgufFile


def _places(file: GgufFile, weights: list[str], n_layers: int) -> dict[str, str]:
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


def _halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys (heads*D, d) in Hugging Face's order, from llama.cpp's.

    The rotary embedding turns pairs of dimensions: (2i, 2i + 1) in llama.cpp, (i, i + D/2) in Hugging Face.
    """
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])  # (heads, D/2, 2, d)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _dequantised(file: GgufFile, tensor: str, config: DecoderConfig) -> np.ndarray:
    """A tensor of the file in Hugging Face's arrangement, float32."""
    from gguf import dequantize

    stored = file.tensors[tensor]
    values: np.ndarray = dequantize(stored.data, stored.tensor_type)
    # Of the architectures in `ARCHITECTURES`, llama.cpp arranges only Llama's queries and keys in its own way.
    for name, heads in (("attn_q", config.n_heads), ("attn_k", config.n_key_value_heads)):
        if file.architecture == "llama" and tensor.endswith(f".{name}.weight"):
            return _halves(values, heads)
    return values


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    same = a.dtype == b.dtype == np.float32 and a.shape == b.shape
    return same and bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


def check_weights(file: GgufFile, folder: Path) -> None:
    """Check that the folder has exactly the file's weights, in float32 and to the bit.

    Raises:
        UserError: with the first weight that differs.
    """
    config, _ = read_config(folder)
    for key in HEAD_WIDTHS:
        if file.size(key) not in (None, config.d_head):
            raise UserError(
                f"{file.path}: {key} is {file.size(key)}, but transformers reads heads of width {config.d_head} "
                "from it; use the model's Hugging Face folder instead"
            )
    files = weight_files(folder)
    places = _places(file, sorted(files), config.n_layers)
    by_path: dict[Path, list[str]] = defaultdict(list)
    for weight, path in files.items():
        by_path[path].append(weight)
    for path, weights in by_path.items():
        opened: Any
        with safe_open(path, framework="numpy") as opened:
            for weight in weights:
                if not _same_bits(opened.get_tensor(weight), _dequantised(file, places[weight], config)):
                    raise UserError(
                        f"{file.path}: tensor {places[weight]!r} as the package gguf dequantises it is not the "
                        f"weight {weight!r} that transformers makes of it; use other versions of the two"
                    )
