"""Find a model's folder and its files. No torch here."""

import os
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.model import hub
from form_invariance.model.gguf import is_gguf
from form_invariance.model.sources import check_hub_id, is_hub_id, refusal
from form_invariance.model.stored_weights import INDEX, WHOLE, weight_files

PACKAGED = Path(__file__).parents[1] / "embedded/models"
"""Folder of the models that come with the package; `embedded:NAME` names one of them."""

TOKENIZER = (
    *("config.json", "tokenizer.json", "tokenizer_config.json"),
    *("added_tokens.json", "special_tokens_map.json"),
)
"""The files of a tokenizer; the last three may be missing."""


def resolve(source: str, revision: str | None = None) -> Path:
    """The local folder of a model, or its GGUF file.

    Args:
        source: `embedded:NAME` for a model of the package, a local folder (`~` is the home folder), a GGUF file,
            or a hub id of Hugging Face. A hub model is downloaded unless it is cached.
        revision: hub branch, tag or commit.

    Raises:
        UserError: the source names no model, the model cannot be downloaded, or it has no revisions.
    """
    found = _local(source)
    if found is None:
        check_hub_id(source, revision)
        return hub.download(source, revision)
    check_revision(source, revision)
    return found


def check_revision(source: str, revision: str | None) -> None:
    """Check that a local model is given without a revision.

    Raises:
        UserError: there is one.
    """
    if revision is not None:
        raise UserError(
            f"revision: {revision!r} is given with {source!r}, but only hub models have revisions; leave it out"
        )


def _local(source: str) -> Path | None:
    """The folder or file that a source names; None for a hub id."""
    if source.startswith("embedded:"):
        packaged = {f"embedded:{path.name}": path for path in sorted(PACKAGED.glob("*/"))}
        if source not in packaged:
            known = ", ".join(packaged)
            raise UserError(f"model {source!r} does not come with the package; known are {known or 'none'}")
        return packaged[source]
    path = Path(os.path.expanduser(source))
    if path.is_dir() or (is_gguf(source) and path.is_file()):
        return path
    if not is_hub_id(source):
        raise UserError(refusal(source))
    return None


def files_read(folder: Path) -> list[Path]:
    """The files from which a model and its tokenizer are read, sorted by name; for a GGUF file, that file.

    Raises:
        UserError: weights are missing, damaged or quantised.
    """
    if folder.is_file():
        return [folder]
    index = [] if (folder / WHOLE).is_file() else [folder / INDEX]
    needed, others = TOKENIZER[:2], TOKENIZER[2:]
    given = [*(folder / name for name in needed), *(folder / name for name in others if (folder / name).exists())]
    return sorted({*given, *index, *weight_files(folder)})
