"""Digests of a model's files, so that every job of a run reads the same model.

The first job records them. Each later one reads all files again, since a bit may flip without a new time stamp. So
the checksum must be fast: XXH3 runs as fast as memory is read, several times as fast as sha256.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import xxhash

from form_invariance.errors import UserError
from form_invariance.model.files import files_read, load_tokenizer, read_config
from form_invariance.tables.columns import Schema, integer, text
from form_invariance.tables.files import read_table
from form_invariance.tables.progress import Progress

MODEL_FILES = Schema(
    "model_files",
    {
        "file": text("name of a file in the model's folder"),
        "bytes": integer("its length"),
        "checksum": text("XXH3, 128 bits, of its content: what every job of the model compares"),
        "sha256": text("sha256 of the file, as sha256sum and the hub tell it"),
    },
)

TOKENIZER = ("config.json", "tokenizer.json", "tokenizer_config.json")
"""What a job reads that needs a model's tokenizer alone: its tokens must be the model's."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


def checksum(path: Path) -> str:
    """Checksum of a file's content: XXH3 in 128 bits."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Says which file it was that the disk did not give."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def record(folder: Path) -> pd.DataFrame:
    """The files that a model is read from, with their digests: the table model_files.

    Raises:
        UserError: a file is missing or broken, or is not what the hub gave.
    """
    read_config(folder)
    load_tokenizer(folder)
    paths = files_read(folder)
    sizes = [path.stat().st_size for path in paths]
    progress = Progress(sum(sizes), "bytes")
    rows = []
    for path, size in zip(paths, sizes, strict=True):
        with _readable(path), path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        # The hub's cache keeps weights under their sha256.
        blob = path.resolve()
        if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) and blob.name != sha256:
            raise UserError(
                f"{path} is not what the hub gave: its sha256 is not {blob.name}; delete {blob} and run again, "
                "which downloads it again"
            )
        rows.append((path.name, size, checksum(path), sha256))
        progress.add(size)
    return pd.DataFrame(rows, columns=list(MODEL_FILES.columns))


def check(folder: Path, recorded: Path, only: Collection[str] = ()) -> None:
    """Check that a model's files are those that were recorded.

    Args:
        recorded: table model_files.
        only: names of the files that matter; default: all.

    Raises:
        UserError: naming the first file that is not as it was.
    """
    known = read_table(recorded, MODEL_FILES).set_index("file")["checksum"]

    def refuse(name: str, what: str) -> None:
        raise UserError(
            f"{folder / name} {what} since {recorded} was made, so this is not the model that the run began with; "
            f"put the file back as it was, or delete {recorded} and run snakemake again, which makes everything "
            "of this model anew"
        )

    for name in only or known.index:
        path = folder / name
        if name in known.index and not path.exists():
            refuse(name, "is gone")
        with _readable(path):
            if name in known.index and checksum(path) != known[name]:
                refuse(name, "has changed")
    found = [folder / name for name in only if (folder / name).exists()] if only else files_read(folder)
    for path in found:
        if path.name not in known.index:
            refuse(path.name, "is new")
