"""The files in which a folder stores its model's weights. No torch here."""

import re
from pathlib import Path

from safetensors import safe_open

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json

WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"

_FLOATS = ("F64", "F32", "F16", "BF16")
_EIGHT_BITS = re.compile(r"[IUF][468]\b|F[468]_")
_MASK = re.compile(r"\b(attn|attention)\.(masked_)?bias$")
"""Old checkpoints store causal masks, some in eight bits."""
_OF_QUANTISATION = re.compile(
    r"[.:](qweight|qzeros|qdata|_data|W_q|g_idx|SCB|(nested_)?(absmax|quant_map)|zero_point|codes|codebooks"
    r"|weight_(packed|shape|zero_point|format)|_scale|((weight|input|output|k|v)_)?scales?(_inv|_2)?)$"
    r"|_weight_(qdata|scale)$|\.quant_state\b"
)
"""Names of what bitsandbytes, GPTQ, AWQ, compressed-tensors, torchao and others add to quantised weights."""


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


def _files(folder: Path) -> list[Path]:
    """The files that Hugging Face reads: model.safetensors, else those of the index."""
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
        return f"{ggufs[0].name} is a GGUF file; the command import-gguf makes a model folder of it"
    if others := sorted(folder.glob("*.safetensors")):
        return (
            f"Hugging Face reads {WHOLE}, or the files that {INDEX} names, and not {others[0].name}; rename it, "
            "or download the index"
        )
    return (
        "it contains no *.safetensors file (pickled .bin weights are never read; convert them with transformers' "
        "save_pretrained)"
    )


def weight_files(folder: Path) -> dict[str, Path]:
    """The safetensors file of every weight.

    Raises:
        UserError: a file is missing or damaged, two files store one weight, the weights are quantised, or the
            folder has an adapter.
    """
    files: dict[str, Path] = {}
    for path in _files(folder):
        with (
            in_one_sentence(f"{path} cannot be read as safetensors"),
            safe_open(path, framework="numpy") as stored,
        ):
            types = {name: stored.get_slice(name).get_dtype() for name in stored.keys()}  # noqa: SIM118
        for name, kind in types.items():
            if name in files:
                raise UserError(
                    f"model folder {folder}: weight {name!r} is in {files[name].name} and in {path.name}; "
                    "download the model again"
                )
            refuse_quantised(name, kind, str(path))
            files[name] = path
    return files


def refuse_quantised(name: str, kind: str, where: str) -> None:
    """Refuse a weight of a quantised model.

    Args:
        kind: its type as safetensors names it.
        where: for messages.

    Raises:
        UserError: the name or the type is one of quantised weights.
    """
    if _is_quantised(name, kind):
        raise UserError(
            f"{where}: the model is quantised (weight {name!r} has type {kind}), and quantised weights are not "
            "read; give the model that was quantised"
        )


def _is_quantised(name: str, kind: str) -> bool:
    if kind in _FLOATS or kind == "BOOL" or _MASK.search(name):
        return bool(_OF_QUANTISATION.search(name))
    return bool(_EIGHT_BITS.match(kind) or name.endswith((".weight", ".bias")) or _OF_QUANTISATION.search(name))
