"""The files in which a folder stores its model's weights. No torch here."""

import math
import re
from pathlib import Path

from safetensors import safe_open

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"

OLD_BUFFERS = re.compile(r"\b(rotary_emb\.inv_freq|(attn|attention)\.(masked_)?bias)$")
"""Buffers that old checkpoints store with the weights; transformers computes them."""
_FLOATS = ("F64", "F32", "F16", "BF16")


def shards(folder: Path) -> list[str]:
    """Names of the files that the index of a folder names, sorted.

    Raises:
        UserError: the index cannot be read.
    """
    path = folder / INDEX
    places = read_json(path).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise UserError(f"{path} has no weight_map; download the model again")
    return sorted(set(places.values()))


def weight_files(folder: Path) -> list[Path]:
    """The files that transformers reads: model.safetensors, else those of the index.

    Raises:
        UserError: there are none, one is missing, or the folder has an adapter.
    """
    if (folder / ADAPTER).exists():
        raise UserError(
            f"model folder {folder} has an adapter ({ADAPTER}), which is not read; merge it into the weights with "
            "peft's merge_and_unload, or move it away"
        )
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if (folder / INDEX).exists():
        names = shards(folder)
        # A shard lies in the folder itself.
        missing = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
        if missing:
            raise UserError(
                f"model folder {folder}: {missing[0]}, which its index names, is missing; download it again"
            )
        return [folder / name for name in names]
    raise UserError(f"model folder {folder} has no weights: {_instead(folder)}")


def _instead(folder: Path) -> str:
    """What a folder without weights contains, and what to do with it."""
    if ggufs := sorted(folder.glob("*.gguf")):
        return f"{ggufs[0].name} is a GGUF file; give the file itself as the source"
    if others := sorted(folder.glob("*.safetensors")):
        return (
            f"transformers reads {WHOLE}, or the files that {INDEX} names, and not {others[0].name}; rename it, "
            "or download the index"
        )
    return (
        "it contains no *.safetensors file (pickled .bin weights are never read; convert them with transformers' "
        "save_pretrained)"
    )


def count_weights(folder: Path) -> int:
    """Number of stored weights, all of which must be floating-point numbers of at least 16 bits.

    Raises:
        UserError: a file is missing or damaged, or the weights are quantised.
    """
    count = 0
    for path in weight_files(folder):
        with in_one_sentence(f"{path} cannot be read as safetensors"), safe_open(path, "numpy") as stored:
            parts = {name: stored.get_slice(name) for name in stored.keys()}  # noqa: SIM118
            kinds = {name: part.get_dtype() for name, part in parts.items() if not OLD_BUFFERS.search(name)}
            count += sum(math.prod(part.get_shape()) for part in parts.values())
        for name, kind in kinds.items():
            if kind not in _FLOATS:
                raise UserError(
                    f"{path}: the model is quantised (weight {name!r} has type {kind}), and quantised weights are "
                    "not read; give the unquantised model"
                )
    return count
