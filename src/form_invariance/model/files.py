"""The files of a model: where they are, its configuration, its tokenizer. Nothing here imports torch."""

import os
import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE

from form_invariance import json_yaml
from form_invariance.errors import UserError, in_one_sentence
from form_invariance.model.families import DecoderConfig, decoder_config
from form_invariance.problems.prompts import PromptTokenizer

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

PACKAGED = Path(__file__).parents[1] / "embedded/models"
"""Where the models that come with the package lie; `embedded:NAME` names one of them."""

LARGEST_TOKENIZER = 2**28
"""Bytes; the largest tokenizer.json in use has about an eighth of that."""


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a model.

    Args:
        source: `embedded:NAME` for a model of the package, a local folder, or a Hugging Face hub id,
            which is downloaded (configuration, safetensors and tokenizer alone) unless it is cached. A `~` at
            the beginning is the home folder.
        revision: hub branch, tag or commit.

    Raises:
        UserError: the folder does not exist, or the hub does not give the model.
    """
    if source.startswith("embedded:"):
        packaged = {f"embedded:{path.name}": path for path in sorted(PACKAGED.glob("*/"))}
        if source not in packaged:
            known = ", ".join(packaged)
            raise UserError(f"model {source!r} does not come with the package; it has {known or 'none'}")
        return packaged[source]
    folder = Path(os.path.expanduser(source))
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
        missing = sorted({path.name for path in names.values() if not path.is_file()})
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
        with (
            in_one_sentence(f"{file} cannot be read as safetensors"),
            safe_open(file, framework="numpy") as weights,
        ):
            names.update(dict.fromkeys(weights.keys(), file))
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

    Truncation and padding that tokenizer.json may store are switched off, as Hugging Face does, and so are the
    random merges of training.

    Raises:
        UserError: tokenizer.json is missing, broken or huge, or its BOS token is none that the model has.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"model folder {folder} has no tokenizer.json; save it with transformers' save_pretrained")
    if path.stat().st_size > LARGEST_TOKENIZER:
        raise UserError(f"{path} has {path.stat().st_size >> 20} MB, which no tokenizer has; download it again")
    with in_one_sentence(f"{path} cannot be read as a tokenizer"):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, BPE):
        tokenizer.model.dropout = None
    vocabulary = read_config(folder)[0].vocabulary
    bos = _bos(tokenizer, folder)
    if bos is not None and bos >= vocabulary:
        raise UserError(
            f"{path}: the BOS token is {bos}, but the model has {vocabulary} tokens; "
            "take tokenizer.json and config.json from one model"
        )
    return PromptTokenizer(tokenizer, bos, vocabulary, str(path))


def _bos(tokenizer: Tokenizer, folder: Path) -> int | None:
    """The token that opens every text: what tokenizer.json puts there, else what tokenizer_config.json names."""
    opening = _opening(tokenizer, folder / "tokenizer.json")
    options = folder / "tokenizer_config.json"
    settings = read_json(options) if options.exists() else {}
    named = settings.get("bos_token")
    if opening is not None or named is None or not settings.get("add_bos_token"):
        return opening
    text = named.get("content") if isinstance(named, dict) else named
    token = tokenizer.token_to_id(text) if isinstance(text, str) else None
    if token is None:
        raise UserError(
            f"{options}: the BOS token is {text!r}, which tokenizer.json does not have; take both from one model"
        )
    return token


def _opening(tokenizer: Tokenizer, path: Path) -> int | None:
    """The token that tokenizer.json puts before a text. What it puts after one would end the prompt."""
    with in_one_sentence(f"{path} cannot encode '0'"):
        whole, bare = (tokenizer.encode("0", add_special_tokens=special).ids for special in (True, False))
    starts = (start for start in range(len(whole)) if whole[start : start + len(bare)] == bare)
    opening = whole[: next(starts, 0)]
    if len(opening) > 1:
        raise UserError(
            f"{path} opens every text with {len(opening)} tokens, {opening}; one, the BOS token, is supported"
        )
    return opening[0] if opening else None
