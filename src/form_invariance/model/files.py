"""Find a model's folder and its files, and read its configuration and tokenizer. No torch here."""

import os
import re
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json
from form_invariance.model.families import DecoderConfig, decoder_config
from form_invariance.problems.prompts import PromptTokenizer

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

PACKAGED = Path(__file__).parents[1] / "embedded/models"
"""Folder of the models that come with the package; `embedded:NAME` names one of them."""

LARGEST_TOKENIZER = 2**28
"""Size limit of tokenizer.json in bytes, about eight times the largest one in use."""


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a model.

    Args:
        source: `embedded:NAME` for a model of the package, a local folder (`~` is the home folder), or a hub id
            of Hugging Face. A hub model is downloaded unless it is cached: configuration, weights and tokenizer.
        revision: hub branch, tag or commit.

    Raises:
        UserError: the folder does not exist, or the model cannot be downloaded.
    """
    if source.startswith("embedded:"):
        packaged = {f"embedded:{path.name}": path for path in sorted(PACKAGED.glob("*/"))}
        if source not in packaged:
            known = ", ".join(packaged)
            raise UserError(f"model {source!r} does not come with the package; known are {known or 'none'}")
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
    """Whether a source has the form of a hub id, such as `owner/model`, and is not a local folder."""
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
            f"model {hub_id!r} is not a local folder and cannot be downloaded from the hub "
            f"({type(error).__name__}); check the spelling and the network, and for a gated model accept "
            "its licence and log in with 'hf auth login'"
        ) from error


def read_config(folder: Path) -> tuple[DecoderConfig, dict[str, Any]]:
    """Sizes and settings of the model, and the content of config.json.

    Raises:
        UserError: config.json is missing, incomplete, or of a family that is not supported.
    """
    path = folder / "config.json"
    if not path.exists():
        raise UserError(f"model folder {folder} has no config.json; give a Hugging Face folder")
    raw = read_json(path)
    return decoder_config(raw, str(path)), raw


def weight_files(folder: Path) -> dict[str, Path]:
    """The safetensors file of every weight.

    Raises:
        UserError: the folder has no safetensors file, or a file that its index names is missing.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names = {name: folder / Path(file).name for name, file in read_json(index)["weight_map"].items()}
        except (KeyError, AttributeError, TypeError):
            raise UserError(f"{index} has no weight_map; download the model again") from None
        missing = sorted({path.name for path in names.values() if not path.is_file()})
        if missing:
            raise UserError(
                f"model folder {folder}: {missing[0]}, which its index names, is missing; download it again"
            )
        return names
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UserError(
            f"model folder {folder} has no weights: it contains no *.safetensors file (pickled .bin weights are "
            "never read; convert them with transformers' save_pretrained)"
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
    """The files from which a model and its tokenizer are read, sorted by name.

    Raises:
        UserError: weights are missing.
    """
    given = [folder / name for name in ("config.json", "tokenizer.json")]
    optional = [folder / name for name in ("tokenizer_config.json", "model.safetensors.index.json")]
    return sorted({*given, *(path for path in optional if path.exists()), *weight_files(folder).values()})


def load_tokenizer(folder: Path) -> PromptTokenizer:
    """The tokenizer of a model, and its BOS token if the model uses one.

    Truncation and padding stored in tokenizer.json are switched off, as Hugging Face does, and so is BPE dropout.

    Raises:
        UserError: tokenizer.json is missing, damaged or too large, or the model does not have its BOS token.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise UserError(f"model folder {folder} has no tokenizer.json; save it with transformers' save_pretrained")
    if path.stat().st_size > LARGEST_TOKENIZER:
        raise UserError(f"{path} has {path.stat().st_size >> 20} MB, too much for a tokenizer; download it again")
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
    """The token that begins every text: the one tokenizer.json adds, else the one tokenizer_config.json names."""
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
    """The token that tokenizer.json adds before a text. A token added after the text would end the prompt."""
    with in_one_sentence(f"{path} cannot encode '0'"):
        whole, bare = (tokenizer.encode("0", add_special_tokens=special).ids for special in (True, False))
    starts = (start for start in range(len(whole)) if whole[start : start + len(bare)] == bare)
    opening = whole[: next(starts, 0)]
    if len(opening) > 1:
        raise UserError(
            f"{path} adds {len(opening)} tokens before every text, {opening}; only a BOS token is supported"
        )
    return opening[0] if opening else None
