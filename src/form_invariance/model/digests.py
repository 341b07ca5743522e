"""Record digests of a model's files, and check in later jobs that the files are still the same.

Every later job reads all files again, because a bit may flip without a new time stamp. So the checksum must be
fast: XXH3 is as fast as memory and several times faster than sha256.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import xxhash

from form_invariance.errors import UserError
from form_invariance.model.folders import files_read
from form_invariance.tables.columns import Schema, integer, text
from form_invariance.tables.files import read_table
from form_invariance.tables.progress import Progress

MODEL_FILES = Schema(
    "model_files",
    {
        "file": text("name of a file in the model's folder"),
        "bytes": integer("its length"),
        "checksum": text("XXH3 (128 bits) of the file, which every job of the model compares"),
        "sha256": text("sha256 of the file, as printed by sha256sum and shown by the hub"),
    },
    ("model",),
)


def _digest(path: Path, algorithm: Any) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            return hashlib.file_digest(file, algorithm).hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def record(folder: Path, file: Path | None = None) -> pd.DataFrame:
    """The table model_files: the files that a model is read from, with their digests.

    Args:
        file: the GGUF file from which the folder was made.

    Raises:
        UserError: a file is missing or damaged, or differs from the hub's.
    """
    paths = [*files_read(folder), *([file] if file else [])]
    sizes = [path.stat().st_size for path in paths]
    progress = Progress(sum(sizes), "bytes")
    rows = []
    for path, size in zip(paths, sizes, strict=True):
        sha256 = _digest(path, "sha256")
        # In the hub's cache a file of weights is named after its sha256.
        blob = path.resolve()
        if blob.parent.name == "blobs" and len(blob.name) == len(sha256) and blob.name != sha256:
            raise UserError(
                f"{path} differs from the hub's file: its sha256 is not {blob.name}; delete {blob} and run again "
                "to download it again"
            )
        rows.append((path.name, size, _digest(path, xxhash.xxh3_128), sha256))
        progress.add(size)
    return pd.DataFrame(rows, columns=list(MODEL_FILES.columns))


def identity(source: Path) -> str:
    """A digest of the files of a model's folder, or of its GGUF file."""
    return _of_checksums(path.name + _digest(path, xxhash.xxh3_128) for path in files_read(source))


def recorded_identity(table: pd.DataFrame, file: Path | None = None) -> str:
    """The `identity` of the files that the table model_files lists; `file` as in `check`."""
    rows = table[table["file"] == file.name] if file else table
    return _of_checksums(rows["file"] + rows["checksum"])


def _of_checksums(checksums: Iterable[str]) -> str:
    return xxhash.xxh3_64_hexdigest("\0".join(checksums).encode())


def check(folder: Path, recorded: Path, file: Path | None = None) -> None:
    """Check that a model's files are the recorded ones.

    Args:
        recorded: table model_files.
        file: the GGUF file from which the folder was made.

    Raises:
        UserError: a file differs; the message names the first.
    """
    checksums = read_table(recorded, MODEL_FILES).set_index("file")["checksum"]

    def refuse(path: Path, what: str) -> None:
        raise UserError(
            f"{path} {what} since {recorded} was made, so this is not the model that the run began with; put the "
            f"file back, or delete {recorded} and run snakemake again to remake all results of this model"
        )

    for name in checksums.index:
        path = file if file and name == file.name else folder / name
        if not path.exists():
            refuse(path, "is gone")
        if _digest(path, xxhash.xxh3_128) != checksums[name]:
            refuse(path, "has changed")
    for path in files_read(folder):
        if path.name not in checksums.index:
            refuse(path, "is new")
