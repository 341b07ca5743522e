"""Models of the Hugging Face hub: what is in its cache, and the download of what is not. No torch here."""

from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.model.folders import ADAPTER, INDEX, TOKENIZER, WHOLE, shards

_FILES = (*TOKENIZER, "tokenizer.*.json", ADAPTER, WHOLE, INDEX)
"""The files from which a model is read, apart from the shards of its weights."""


def cached(hub_id: str, revision: str | None) -> Path | None:
    """The snapshot in the hub's cache that has the model's config.json; other files may be missing."""
    from huggingface_hub import try_to_load_from_cache

    try:
        path = try_to_load_from_cache(hub_id, "config.json", revision=revision)
    except ValueError:
        return None
    return Path(path).parent if isinstance(path, str) else None


def _missing(folder: Path) -> list[str]:
    """Names of the files that are missing from a snapshot."""
    weights = [WHOLE] if (folder / WHOLE).is_file() or not (folder / INDEX).is_file() else shards(folder)
    return [name for name in ("config.json", "tokenizer.json", *weights) if not (folder / name).is_file()]


def check_offline(hub_id: str, revision: str | None) -> None:
    """Check, if HF_HUB_OFFLINE is set, that a model is in the hub's cache completely or not at all.

    Raises:
        UserError: a file is missing.
    """
    from huggingface_hub.constants import is_offline_mode

    if is_offline_mode() and cached(hub_id, revision):
        download(hub_id, revision)


def download(hub_id: str, revision: str | None) -> Path:
    """The snapshot of a hub model, downloaded unless it is cached: configuration, tokenizer and weights.

    Raises:
        UserError: it cannot be downloaded, or only a part of it is cached and the hub cannot be reached.
    """
    from huggingface_hub import list_repo_files, snapshot_download

    try:
        folder = Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(_FILES)))
        missing = _missing(folder)
        if missing and (folder / INDEX).is_file():
            # The folder's name is the commit.
            snapshot_download(hub_id, revision=folder.name, allow_patterns=missing)
            missing = _missing(folder)
        if missing:
            list_repo_files(hub_id, revision=folder.name)
    except Exception as error:
        why = type(error).__name__
        if (part := cached(hub_id, revision)) and (missing := _missing(part)):
            raise UserError(
                f"model {hub_id!r}: {missing[0]} is not in the hub's cache and cannot be downloaded ({why}); run "
                f"'hf download {hub_id}' where there is a network"
            ) from error
        raise UserError(
            f"model {hub_id!r} is not a local folder and cannot be downloaded from the hub ({why}); check the "
            "spelling and the network, and for a gated model accept its licence and log in with 'hf auth login'"
        ) from error
    return folder
