"""The one reader and the one writer of tables (Parquet) and of tensors (safetensors).

Outputs appear whole or not at all. Provenance travels in the file's own metadata, and a checksum of it and of the
content, which readers verify.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from form_invariance import __version__
from form_invariance.errors import UserError
from form_invariance.tables import checksums
from form_invariance.tables.columns import Schema

if TYPE_CHECKING:
    from torch import Tensor

Key = TypeVar("Key")

_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
_PROVENANCE = "form_invariance"
_CHECKSUM = "checksum"


def _line(error: Exception) -> str:
    """What an exception says, on one line."""
    return " ".join(str(error).split())


def _is_named(handle: int, path: Path) -> bool:
    """Whether an open file still has this name: another writer may have renamed or removed it."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _lock(temporary: Path, path: Path) -> int:
    """Open `temporary` and lock it, as the file that has this name now; returns the descriptor.

    Raises:
        UserError: another process is writing it.
    """
    while True:
        handle = os.open(temporary, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(handle, temporary):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise UserError(f"{path} is being written by another process; wait for it, or end it") from None
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


@contextmanager
def _claimed(path: Path) -> Iterator[Path]:
    """The temporary file beside `path`, for this process alone; what a killed process left of it is used again."""
    temporary = path.with_name(f".{path.name}.part{path.suffix}")
    handle = _lock(temporary, path)
    try:
        yield temporary
    finally:
        if _is_named(handle, temporary):
            temporary.unlink()
        os.close(handle)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, bring it to the disk and rename it into place.

    Raises:
        UserError: the file cannot be written, for instance since the disk is full; what was there before stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _claimed(path) as temporary:
            write(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {_line(error)}; mend this, then run again") from None


def _arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, _TYPES[column.type], metadata={"meaning": column.meaning})
            for name, column in schema.columns.items()
        ]
    )


def _checksum(stamp: Mapping[str, Any], content: str) -> str:
    return hashlib.sha256(f"{json.dumps(stamp, sort_keys=True)}\0{content}".encode()).hexdigest()


def _metadata(kind: str, provenance: Mapping[str, Any], content: str) -> dict[str, str]:
    """What a file says of itself, under one key: safetensors would put several in any order."""
    stamp = json.loads(json.dumps({"table": kind, "version": __version__, **provenance}))
    return {_PROVENANCE: json.dumps({**stamp, _CHECKSUM: _checksum(stamp, content)}, sort_keys=True)}


def _stamp(text: str) -> dict[str, Any]:
    """What a file says of itself; nothing where that is damaged."""
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}


def _verify(path: Path, found: str, content: str) -> dict[str, Any]:
    """The provenance in a file's metadata, checked with the content's digest.

    Raises:
        UserError: the file was changed, or written by something else.
    """
    stamp = _stamp(found)
    if stamp.pop(_CHECKSUM, None) != _checksum(stamp, content):
        raise UserError(
            f"{path} is not as it was written: its checksum does not fit; delete it and run snakemake again"
        )
    return stamp


def write_table(frame: pd.DataFrame, path: Path, schema: Schema, provenance: Mapping[str, Any]) -> None:
    """Write a table whose columns are exactly the schema's.

    Args:
        frame: the rows; the order of columns does not matter.
        provenance: model, seed, settings: anything JSON can hold. The package's version is added.

    Raises:
        ValueError: a column lacks, is not in the schema, or has another type.
    """
    if set(frame.columns) != set(schema.columns):
        raise ValueError(f"{schema.name}: columns {sorted(frame.columns)} are not {sorted(schema.columns)}")
    table = pa.Table.from_pandas(
        frame[list(schema.columns)], schema=_arrow_schema(schema), preserve_index=False, safe=True
    )
    content = checksums.of_table(table.to_pandas())
    table = table.replace_schema_metadata(_metadata(schema.name, provenance, content))
    write_atomically(Path(path), lambda to: pq.write_table(table, to, compression="zstd"))


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; make it with 'snakemake {path}'") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as Parquet ({_line(error)}); delete it and run snakemake again"
        ) from None


def read_table(path: Path, schema: Schema) -> pd.DataFrame:
    """Read a table and check that it is of the kind that `schema` describes.

    Raises:
        UserError: the file is missing, broken, changed, or another kind of table.
    """
    path = Path(path)
    with _open(path) as file:
        found = {field.name: field.type for field in file.schema_arrow}
        for name, column in schema.columns.items():
            if found.get(name) != _TYPES[column.type]:
                raise UserError(
                    f"{path} is not a {schema.name} table: column {name!r} must be {column.type}, "
                    f"but is {found.get(name, 'missing')}"
                )
        try:
            stamp = (file.schema_arrow.metadata or {}).get(_PROVENANCE.encode(), b"").decode()
            frame = file.read(columns=list(schema.columns)).to_pandas()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{path} is damaged ({_line(error)}); delete it and run snakemake again") from None
    _verify(path, stamp, checksums.of_table(frame))
    return frame


def read_tables(paths: Mapping[Key, Path], schema: Schema) -> dict[Key, pd.DataFrame]:
    """Read several tables of one kind, under the keys of their paths."""
    return {key: read_table(path, schema) for key, path in paths.items()}


def provenance_of(path: Path) -> dict[str, Any]:
    """What a table's writer recorded: kind of table, package version, model, seed, settings."""
    with _open(Path(path)) as file:
        metadata = file.schema_arrow.metadata or {}
    stamp = _stamp(metadata.get(_PROVENANCE.encode(), b"").decode(errors="replace"))
    return {key: value for key, value in stamp.items() if key != _CHECKSUM}


def write_tensors(
    tensors: Mapping[str, "Tensor | np.ndarray"], path: Path, kind: str, provenance: Mapping[str, Any]
) -> None:
    """Write named tensors or arrays with their provenance as safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {name: _array(tensor) for name, tensor in tensors.items()}
    metadata = _metadata(kind, provenance, checksums.of_arrays(arrays))

    def save(to: Path) -> None:
        try:
            save_file(arrays, to, metadata=metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from None

    write_atomically(Path(path), save)


def _array(values: "Tensor | np.ndarray") -> np.ndarray:
    """The values as a contiguous array of the same shape, also where they are on another device."""
    return np.asarray(values if isinstance(values, np.ndarray) else values.detach().cpu().numpy(), order="C")


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read named tensors (as numpy arrays, so that readers need no torch) and their provenance.

    Raises:
        UserError: the file is missing, broken, or holds another kind of tensors.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            stamp = (file.metadata() or {}).get(_PROVENANCE, "")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; make it with 'snakemake {path}'") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors ({_line(error)}); delete it and run snakemake again"
        ) from None
    provenance = _verify(path, stamp, checksums.of_arrays(arrays))
    if provenance["table"] != kind:
        raise UserError(f"{path} does not hold {kind} but {provenance['table']}")
    return arrays, provenance
