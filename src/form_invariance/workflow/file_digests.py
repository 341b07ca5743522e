"""sha256 of the user's files, by which rules know what changed: a table, a text, the files of a local model.

Not by time stamps: a file may be replaced by an older one. A model has gigabytes, so a digest is kept until the
file's inode, size or times change. Nobody can set the time of the last change (ctime) back.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.json_yaml import read_json
from form_invariance.model.folders import files_read
from form_invariance.tables.files import write_text
from form_invariance.workflow.model_checks import local_folder
from form_invariance.workflow.rule_options import tables_of

_KEPT = Path(".snakemake/form_invariance_files.json")

Digests = Mapping[str, str]
"""By the path of a file."""


def tables_and_text(config: Mapping[str, Any]) -> list[str]:
    """The files of the user that a configuration names, without its models."""
    return [*tables_of(config), *filter(None, [config.get("specificity_text")])]


def of_model(model: Mapping[str, Any]) -> list[str]:
    """The files of a model in a folder on this machine; none of a hub id, whose revision says what it is."""
    folder = local_folder(model["source"])
    return [] if folder is None else list(map(str, files_read(folder)))


def digests(config: Mapping[str, Any], begun: Digests) -> dict[str, str]:
    """The digests of all files that a checked configuration names.

    Args:
        begun: the digests with which a run began, for its jobs.
    """
    models = [path for model in config["models"].values() for path in of_model(model)]
    paths = dict.fromkeys([*tables_and_text(config), *models])
    kept = _kept()
    records = {path: [begun[path]] if path in begun else _digest(path, kept.get(path)) for path in paths}
    if new := {path: record for path, record in records.items() if len(record) > 1 and record != kept.get(path)}:
        write_text(_KEPT, json.dumps({**kept, **new}))
    return {path: record[0] for path, record in records.items()}


def _kept() -> dict[str, list[str]]:
    """The digests of earlier runs with the states of their files; none where this cannot be read."""
    try:
        return {path: record for path, record in read_json(_KEPT).items() if isinstance(record, list)}
    except UserError:
        return {}


def state_of(file: os.stat_result) -> str:
    """What cannot stay equal while a file's content changes."""
    return f"{file.st_ino} {file.st_size} {file.st_mtime_ns} {file.st_ctime_ns}"


def _digest(path: str, kept: list[str] | None) -> list[str]:
    """The digest of a file, and the state of the file that has it."""
    try:
        with open(path, "rb") as file:
            now = state_of(os.fstat(file.fileno()))
            if kept and kept[1:] == [now]:
                return kept
            return [hashlib.file_digest(file, "sha256").hexdigest(), now]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
