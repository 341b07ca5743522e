"""What a source that is no folder was meant to be, in one sentence. No torch here."""

import difflib
import re
from pathlib import Path
from urllib.parse import unquote

from form_invariance.errors import UserError
from form_invariance.model import hub

_HUB_ID = r"(?!(?:api|collections|datasets|docs|models|papers|spaces)/)[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
"""No owner has the name of a part of the hub."""
_HOST = r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/"
_WITH_REVISION = re.compile(rf"({_HUB_ID})@(.+)")
_PAGE = re.compile(
    rf"{_HOST}({_HUB_ID})(?:/(?:tree|blob|resolve|commit)/([^/?#]+))?.*"
    rf"|hf://({_HUB_ID})(?:@([^/]+))?.*"
)
_WHEELS = "config/wheels"
"""Lists of what the Makefile fetches for each of its models."""
_LIKE_A_FOLDER = 0.7
"""Similarity of two folders' names above which one is taken for a misspelling of the other."""


def is_hub_id(source: str) -> bool:
    """Whether a source has the form of a hub id, such as `owner/model`, and is not a local file or folder."""
    if source.startswith("embedded:") or source.lower().endswith(".gguf") or Path(source).exists():
        return False
    if re.match(_HOST, source) or "--" in source or source[-1] in ".-":
        return False
    return bool(re.fullmatch(_HUB_ID, source))


def _by_revision(hub_id: str, revision: str | None) -> str:
    return f"give the hub id {hub_id!r}" + (f" and, as its revision, {revision!r}" if revision else "")


def refusal(source: str) -> str:
    """Why a source is neither a local folder nor a hub id, and what to give instead."""
    if source.lower().endswith(".gguf"):
        return f"the GGUF file {source!r} does not exist; correct the path"
    if Path(source).is_file():
        return f"model {source!r} is a file; give the folder that contains it"
    if match := _WITH_REVISION.fullmatch(source):
        return f"model {source!r} has a revision in its hub id; {_by_revision(match[1], match[2])}"
    if match := _PAGE.fullmatch(source):
        revision = unquote(match[2] or match[4] or "")
        return f"model {source!r} is a page of the hub; {_by_revision(match[1] or match[3], revision)}"
    if "://" in source or re.match(_HOST, source):
        return f"model {source!r} is a URL; give a local folder or a hub id such as 'meta-llama/Llama-3.2-1B'"
    if Path(source).parent == Path("models") and Path(_WHEELS, f"{Path(source).name}.txt").exists():
        return f"model folder {source!r} does not exist; 'make {Path(source)}' fetches it"
    if re.fullmatch(r"[\w.-]*\w", source):
        return (
            f"model folder {source!r} does not exist, and a hub id has an owner before the name, such as "
            "'openai-community/gpt2'"
        )
    return (
        f"model folder {source!r} does not exist; give a Hugging Face folder with config.json, *.safetensors and "
        "tokenizer.json, a hub id such as 'meta-llama/Llama-3.2-1B', or embedded:NAME"
    )


def check_hub_id(hub_id: str, revision: str | None) -> None:
    """Check that a hub id is not the misspelt path of a local folder. A model in the hub's cache is none.

    Raises:
        UserError: a folder of the working folder has the owner's name, or a similar name and the model.
    """
    owner, name = hub_id.split("/")
    with_model = [path.parent.name for path in Path().glob(f"*/{name}") if path.is_dir()]
    near = [owner] if Path(owner).is_dir() else difflib.get_close_matches(owner, with_model, 1, _LIKE_A_FOLDER)
    if near and hub.cached(hub_id, revision) is None:
        raise UserError(
            f"model folder {hub_id!r} does not exist, but the folder {near[0]!r} does; correct the path, or, if "
            f"the hub's model is meant, run 'hf download {hub_id}' first"
        )
