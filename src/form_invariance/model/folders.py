"""The files of a model's folder that are read. No torch here."""

from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.json_yaml import read_json
from form_invariance.model.sizes import read_config

TOKENIZER = (
    *("config.json", "tokenizer.json", "tokenizer_config.json"),
    *("added_tokens.json", "special_tokens_map.json"),
)
"""The files of a tokenizer; the last three may be missing."""
WHOLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"


def files_read(folder: Path) -> list[Path]:
    """The files from which a model and its tokenizer are read, sorted by name; for a GGUF file, that file.

    Raises:
        UserError: weights are missing.
    """
    if folder.is_file():
        return [folder]
    return sorted({*tokenizer_files(folder), *weight_files(folder)})


def tokenizer_files(folder: Path) -> list[Path]:
    """The files from which a tokenizer is read, and its files for other versions of transformers."""
    config = folder / "tokenizer_config.json"
    versions = read_json(config).get("fast_tokenizer_files") if config.is_file() else None
    named = versions if isinstance(versions, list) else []
    others = [folder / name for name in (*TOKENIZER[2:], *named) if isinstance(name, str)]
    return [*(folder / name for name in TOKENIZER[:2]), *(path for path in others if path.is_file())]


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
    """The files that transformers reads: model.safetensors, else the index and the files that it names.

    Raises:
        UserError: there are none, one is missing, or the folder has an adapter.
    """
    if (folder / ADAPTER).exists():
        raise UserError(
            f"model folder {folder} has an adapter ({ADAPTER}), which is not read; merge it into the weights with "
            "peft's merge_and_unload, or move it away"
        )
    if read_config(folder).get("transformers_weights") is not None:
        raise UserError(f"{folder / 'config.json'}: the key transformers_weights is not supported")
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if not (folder / INDEX).exists():
        raise UserError(
            f"model folder {folder} has no weights: it has neither {WHOLE} nor {INDEX} (pickled .bin weights are "
            "never read; convert them with transformers' save_pretrained; a GGUF file is a source itself)"
        )
    names = shards(folder)
    # Shards are in the folder itself, not below it.
    missing = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"model folder {folder}: {missing[0]}, which its index names, is missing; download it again"
        )
    return [folder / INDEX, *(folder / name for name in names)]
