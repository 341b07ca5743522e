"""Digests of a model's files, so that every job of a run reads the same model.

The first job records them. Each later one reads all files again, since a bit may flip without a new time stamp. So
the checksum must be fast: on one CPU 3 to 4 GB a second, where sha256 does about 1.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.model_files import files_read, load_tokenizer, read_config
from form_invariance.progress import Progress
from form_invariance.schemas import MODEL_FILES
from form_invariance.tables_io import read_table

TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
"""What a job reads that needs a model's tokenizer alone."""

_ROWS, _COLUMNS = 256, 512
_SHA256 = re.compile(r"[0-9a-f]{64}")


def checksum(path: Path) -> str:
    """Checksum of a file's content.

    Blocks of 256 x 512 words of 8 bytes (the last filled up with zeros) are summed along both axes, modulo 2**64,
    and the sums and the file's length are hashed. A change of up to three words of a block always changes a sum.
    """
    digest = hashlib.sha256()
    block = np.zeros((_ROWS, _COLUMNS), dtype="<u8")
    view = block.data.cast("B")
    length = 0
    with path.open("rb", buffering=0) as file:
        while read := _fill(file, view):
            view[read:] = bytes(len(view) - read)
            digest.update(block.sum(axis=0).tobytes() + block.sum(axis=1).tobytes())
            length += read
    digest.update(str(length).encode())
    return digest.hexdigest()


def _fill(file: FileIO, view: memoryview) -> int:
    """Read until `view` is full or the file ends; returns the number of bytes."""
    filled = 0
    while filled < len(view) and (read := file.readinto(view[filled:])):
        filled += read
    return filled


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
