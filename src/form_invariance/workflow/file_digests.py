"""sha256 of the user's files: tables, a text, the files of local models. A rule re-runs when a digest changes.

Time stamps are not enough, because a file may be replaced by an older one. A model has gigabytes, so a digest is
kept until the file's inode, size or times change. Nobody can set the time of the last change (ctime) back.
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
"""Digests by the path of a file."""


def tables_and_text(config: Mapping[str, Any]) -> list[str]:
    """The user's tables and text that a configuration names."""
    return [*tables_of(config), *filter(None, [config.get("specificity_text")])]


def of_model(model: Mapping[str, Any]) -> list[str]:
    """The files of a local model. A hub id has none: its revision identifies the model."""
    folder = local_folder(model["source"])
    return [] if folder is None else list(map(str, files_read(folder)))


def digests(config: Mapping[str, Any], begun: Digests) -> dict[str, str]:
    """The digests of all files that a checked configuration names.

    Args:
        begun: in a job of a cluster, the digests that its run began with; they are not computed again.
    """
    models = [path for model in config["models"].values() for path in of_model(model)]
    paths = dict.fromkeys([*tables_and_text(config), *models])
    kept = _kept()
    records = {path: [begun[path]] if path in begun else _digest(path, kept.get(path)) for path in paths}
    if new := {path: record for path, record in records.items() if len(record) > 1 and record != kept.get(path)}:
        write_text(_KEPT, json.dumps({**kept, **new}))
    return {path: record[0] for path, record in records.items()}


def _kept() -> dict[str, list[str]]:
    """The digests of earlier runs with the states of their files; empty if the file cannot be read."""
    try:
        return {path: record for path, record in read_json(_KEPT).items() if isinstance(record, list)}
    except UserError:
        return {}


def state_of(file: os.stat_result) -> str:
    """Inode, size and times of a file. They change whenever its content does."""
    return f"{file.st_ino} {file.st_size} {file.st_mtime_ns} {file.st_ctime_ns}"


def _digest(path: str, kept: list[str] | None) -> list[str]:
    """The digest and the state of a file; `kept` if the state is the same."""
    try:
        with open(path, "rb") as file:
            now = state_of(os.fstat(file.fileno()))
            if kept and kept[1:] == [now]:
                return kept
            return [hashlib.file_digest(file, "sha256").hexdigest(), now]
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
