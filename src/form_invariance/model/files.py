"""Find a model's folder and its files, and read its configuration and tokenizer. No torch here."""

import os
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE

from form_invariance.errors import UserError, in_one_sentence
from form_invariance.json_yaml import read_json
from form_invariance.model import hub
from form_invariance.model.families import DecoderConfig, decoder_config
from form_invariance.model.sources import check_hub_id, is_hub_id, refusal
from form_invariance.model.stored_weights import INDEX, WHOLE, weight_files
from form_invariance.problems.prompts import PromptTokenizer

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
        UserError: the source names no model, or the model cannot be downloaded.
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
        raise UserError(refusal(source))
    check_hub_id(source, revision)
    return hub.download(source, revision)


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


def files_read(folder: Path) -> list[Path]:
    """The files from which a model and its tokenizer are read, sorted by name.

    Raises:
        UserError: weights are missing, damaged or quantised.
    """
    given = [folder / name for name in ("config.json", "tokenizer.json")]
    if not (folder / WHOLE).is_file():
        given.append(folder / INDEX)
    options = folder / "tokenizer_config.json"
    return sorted({*given, *([options] if options.exists() else []), *weight_files(folder).values()})


def load_tokenizer(folder: Path) -> PromptTokenizer:
    """The tokenizer of a model, and its BOS token if the model uses one (`prompt_tokenizer`).

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
    return prompt_tokenizer(tokenizer, read_config(folder)[0].vocabulary, path, folder / "tokenizer_config.json")


def prompt_tokenizer(
    tokenizer: Tokenizer, vocabulary: int, name: Path | str, options: Path | None = None
) -> PromptTokenizer:
    """A tokenizer with its BOS token, if the model uses one.

    Its truncation and padding are switched off, as Hugging Face does, and so is BPE dropout.

    Args:
        vocabulary: number of tokens that the model has.
        name: for messages.
        options: tokenizer_config.json, which may not exist.

    Raises:
        UserError: the model does not have the BOS token.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, BPE):
        tokenizer.model.dropout = None
    bos = _bos(tokenizer, name, options)
    if bos is not None and bos >= vocabulary:
        raise UserError(
            f"{name}: the BOS token is {bos}, but the model has {vocabulary} tokens; "
            "take tokenizer.json and config.json from one model"
        )
    return PromptTokenizer(tokenizer, bos, vocabulary, str(name))


def _bos(tokenizer: Tokenizer, name: Path | str, options: Path | None) -> int | None:
    """The token that begins every text: the one tokenizer.json adds, else the one tokenizer_config.json names."""
    opening = _opening(tokenizer, name)
    settings = read_json(options) if options and options.exists() else {}
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


def _opening(tokenizer: Tokenizer, name: Path | str) -> int | None:
    """The token that tokenizer.json adds before a text. A token added after the text would end the prompt."""
    with in_one_sentence(f"{name} cannot encode '0'"):
        whole, bare = (tokenizer.encode("0", add_special_tokens=special).ids for special in (True, False))
    starts = (start for start in range(len(whole)) if whole[start : start + len(bare)] == bare)
    opening = whole[: next(starts, 0)]
    if len(opening) > 1:
        raise UserError(
            f"{name} adds {len(opening)} tokens before every text, {opening}; only a BOS token is supported"
        )
    return opening[0] if opening else None
