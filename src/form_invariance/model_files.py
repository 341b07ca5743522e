"""The files of a model: where they are, its configuration, its tokenizer. Nothing here imports torch."""

import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from form_invariance import json_yaml
from form_invariance.errors import UserError
from form_invariance.families import DecoderConfig, decoder_config
from form_invariance.prompts import PromptTokenizer

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

PACKAGED = Path(__file__).parent / "embedded_models"
"""Where the models that come with the package lie; `embedded:NAME` names one of them."""


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a model.

    Args:
        source: `embedded:NAME` for a model of the package, a local folder, or a Hugging Face hub id,
            which is downloaded (configuration, safetensors and tokenizer alone) unless it is cached.
        revision: hub branch, tag or commit.

    Raises:
        UserError: the folder does not exist, or the hub does not give the model.
    """
    if source.startswith("embedded:"):
        folder = PACKAGED / source.removeprefix("embedded:")
        if not folder.is_dir():
            known = ", ".join(sorted(f"embedded:{path.name}" for path in PACKAGED.glob("*/")))
            raise UserError(f"model {source!r} does not come with the package; it has {known or 'none'}")
        return folder
    folder = Path(source)
    if folder.is_dir():
        return folder
    if not is_hub_id(source):
        raise UserError(
            f"model folder {source!r} does not exist; give a Hugging Face folder with config.json, "
            "*.safetensors and tokenizer.json, a hub id such as 'meta-llama/Llama-3.2-1B', or embedded:NAME"
        )
    return _download(source, revision)


def is_hub_id(source: str) -> bool:
    """Whether a source that is no local folder can only be a hub id, such as `owner/model`."""
    if source.startswith("embedded:") or Path(source).is_dir():
        return False
    return bool(_HUB_ID.fullmatch(source))


def _download(hub_id: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                hub_id,
                revision=revision,
                allow_patterns=["*.json", "*.safetensors"],
                ignore_patterns=["original/*"],
            )
        )
    except Exception as error:
        raise UserError(
            f"model {hub_id!r} is neither a local folder nor could it be downloaded from the hub "
            f"({type(error).__name__}); check the spelling and the network, and for a gated model accept "
            "its licence and log in with 'hf auth login'"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of a model folder.

    Raises:
        UserError: it is missing or not JSON.
    """
    try:
        return json_yaml.read_json(path)
    except FileNotFoundError:
        raise UserError(
            f"model folder {path.parent} has no {path.name}; it must be a Hugging Face folder"
        ) from None


def read_config(folder: Path) -> tuple[DecoderConfig, dict[str, Any]]:
    """The model's numbers, and the raw config.json.

    Raises:
        UserError: config.json is missing, incomplete, or of a family that is not supported.
    """
    raw = read_json(folder / "config.json")
    return decoder_config(raw, str(folder / "config.json")), raw


def weight_files(folder: Path) -> dict[str, Path]:
    """The safetensors file of every weight.

    Raises:
        UserError: the folder has no safetensors, or lacks one that its index names.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = {name: folder / Path(file).name for name, file in read_json(index)["weight_map"].items()}
        except (KeyError, AttributeError, TypeError):
            raise UserError(f"{index} has no weight_map; download the model again") from None
        missing = sorted({path.name for path in names.values() if not path.exists()})
        if missing:
            raise UserError(f"model folder {folder} lacks {missing[0]}, which its index names; download it again")
        return names
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(
            f"model folder {folder} has no weights: no *.safetensors is there "
            "(pickled .bin weights are never read; convert them with transformers' save_pretrained)"
        )
    from safetensors import safe_open

    names = {}
    for file in files:
        try:
            with safe_open(file, framework="numpy") as weights:
                names.update(dict.fromkeys(weights.keys(), file))
        except Exception as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{file} cannot be read as safetensors: {reason}") from None
    return names


def files_read(folder: Path) -> list[Path]:
    """The files that a model and its tokenizer are read from, sorted by name.

    Raises:
        UserError: the folder has no weights, or lacks some that its index names.
    """
    given = [folder / name for name in ("config.json", "tokenizer.json")]
    optional = [folder / name for name in ("tokenizer_config.json", "model.safetensors.index.json")]
    return sorted({*given, *(path for path in optional if path.exists()), *weight_files(folder).values()})


def load_tokenizer(folder: Path) -> PromptTokenizer:
    """The tokenizer of a model folder, and its BOS token where the model uses one.

    Raises:
        UserError: tokenizer.json is missing or broken.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise UserError(f"model folder {folder} has no tokenizer.json; save it with transformers' save_pretrained")
    try:
        tokenizer = Tokenizer.from_file(str(path))
        opening = tokenizer.encode("", add_special_tokens=True).ids
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of the library is no Exception.
        reason = " ".join(str(error).split())
        raise UserError(f"{path} cannot be read as a tokenizer: {reason}") from None
    if opening:
        return PromptTokenizer(tokenizer, opening[0])
    options = folder / "tokenizer_config.json"
    settings = read_json(options) if options.exists() else {}
    bos = settings.get("bos_token") if settings.get("add_bos_token") else None
    text = bos.get("content") if isinstance(bos, dict) else bos
    if not text:
        return PromptTokenizer(tokenizer, None)
    token = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if token is None:
        raise UserError(f"{options}: bos_token {text!r} is no token of {path}")
    return PromptTokenizer(tokenizer, token)
