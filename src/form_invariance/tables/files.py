"""The one reader and the one writer of tables (Parquet) and of tensors (safetensors).

Outputs appear whole or not at all. A file's metadata holds its provenance and a checksum of content and
provenance, which the readers verify.
"""

import contextlib
import glob
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from form_invariance import __version__
from form_invariance.errors import UserError, one_line
from form_invariance.tables import checksums, lineage
from form_invariance.tables.columns import Schema

if TYPE_CHECKING:
    from torch import Tensor

Key = TypeVar("Key")

_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}
_PROVENANCE = "form_invariance"
_CHECKSUM = "checksum"
_SHORT = 16
"""Hexadecimal digits of a digest in lineages."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file in the folder of `path`, flush it to the disk and rename it to `path`.

    A killed writer leaves its temporary file; the next writer of `path` deletes it.

    Raises:
        UserError: the file cannot be written, for instance because the disk is full. An older file remains.
    """
    end = f".part{path.suffix}"
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{end}")
    made = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.????????{glob.escape(end)}"):
            leftover.unlink(missing_ok=True)
        temporary.touch()
        made = True
        mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)  # safetensors makes files that their owner alone may read
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        if made and isinstance(error, FileNotFoundError):
            raise UserError(f"another process writes {path} at the same time; run again after it") from None
        raise UserError(f"{path} cannot be written: {one_line(error)}; fix this, then run again") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file as `write_atomically` does."""
    write_atomically(path, lambda to: to.write_text(text, encoding="utf-8"))


@contextlib.contextmanager
def reading(path: Path, kind: str, *more: type[Exception]) -> Iterator[None]:
    """Turn errors about a missing or damaged file into a UserError of one sentence.

    Args:
        kind: what the file should be, for instance Parquet.
        more: exceptions of this reader, added to those of tables, tensors and the file system.
    """
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; make it with 'snakemake {path}'") from None
    except (pa.ArrowException, SafetensorError, OSError, ValueError, *more) as error:
        raise UserError(
            f"{path} cannot be read as {kind} ({one_line(error)}); delete it and run snakemake again"
        ) from None


def _checksum(stamp: Mapping[str, Any], content: str) -> str:
    return hashlib.sha256(f"{json.dumps(stamp, sort_keys=True)}\0{content}".encode()).hexdigest()


def _new_stamp(
    kind: str,
    provenance: Mapping[str, Any],
    keys: Mapping[str, str],
    content: str,
    parts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The stamp of a new file: its provenance with its lineage, and the checksum of both and of its content.

    Args:
        content: digest of the content.
        parts: digests of its parts; other files may contain some of them.
    """
    digests = {name: digest[:_SHORT] for name, digest in (parts or {"": content}).items()}
    made = {"table": kind, "version": __version__, "keys": dict(keys), "content": digests}
    ancestors = {"lineage": lineage.of_output(kind, provenance, keys)}
    stamp = json.loads(json.dumps({**provenance, **made, **ancestors}))
    return {**stamp, _CHECKSUM: _checksum(stamp, content)}


def _metadata(stamp: Mapping[str, Any]) -> dict[str, str]:
    """The stamp under one key, because safetensors does not keep the order of several keys."""
    return {_PROVENANCE: json.dumps(stamp, sort_keys=True)}


def _parsed(text: str) -> dict[str, Any]:
    """The stamp in the metadata; empty if it is damaged."""
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}


def _verify(path: Path, stamp: Mapping[str, Any], content: str, kind: str) -> dict[str, Any]:
    """The provenance in a file's stamp, after comparing the checksum with the digest of the content.

    Raises:
        UserError: the file was changed, or written by another program, or is of another kind.
    """
    provenance = {name: value for name, value in stamp.items() if name != _CHECKSUM}
    if stamp.get(_CHECKSUM) != _checksum(provenance, content):
        raise UserError(
            f"{path} has changed since it was written: its checksum does not match; delete it and run snakemake "
            "again"
        )
    if provenance["table"] != kind:
        raise UserError(f"{path} contains {provenance['table']}, not {kind}")
    return provenance


def write_table(
    frame: pd.DataFrame,
    path: Path,
    schema: Schema,
    provenance: Mapping[str, Any],
    keys: Mapping[str, str] | None = None,
) -> None:
    """Write a table whose columns are exactly the schema's, after the columns of its keys.

    Args:
        frame: the rows; the order of columns does not matter.
        provenance: model, seed, settings: any JSON value. The package's version is added.
        keys: these identify the whole table (`tables.keys`); keys that the schema does not have are left out.

    Raises:
        ValueError: a column is missing, is not in the schema, or has another type.
        UserError: a key is missing, because the table's inputs differ in it.
    """
    all_keys = keys or {}
    if missing := [name for name in schema.keys if name not in all_keys]:
        key = missing[0]
        raise UserError(f"the files that {path} is made from are not all of one {key}; give files of one {key}")
    schema_keys = {name: all_keys[name] for name in schema.keys}
    if set(frame.columns) != set(schema.columns):
        raise ValueError(f"{schema.name}: columns {sorted(frame.columns)} are not {sorted(schema.columns)}")
    fields = [
        pa.field(name, _TYPES[column.type], metadata={"meaning": column.meaning})
        for name, column in schema.columns.items()
    ]
    table = pa.Table.from_pandas(frame[list(schema.columns)], pa.schema(fields), preserve_index=False, safe=True)
    content = checksums.of_table(table.to_pandas())
    sizes = provenance.get("k", frame["k"].unique().tolist()) if schema.by_size else []
    parts = {f"{lineage.SIZE}{size}": checksums.of_table(frame[frame["k"] == size]) for size in set(sizes)}
    for name, value in reversed(schema_keys.items()):
        field = pa.field(name, pa.string(), metadata={"meaning": f"{name} of the whole table"})
        table = table.add_column(0, field, pa.array([value] * len(frame), pa.string()))
    table = table.replace_schema_metadata(
        _metadata(_new_stamp(schema.name, provenance, schema_keys, content, parts))
    )
    write_atomically(path, lambda to: pq.write_table(table, to, compression="zstd"))


def read_table(path: Path, schema: Schema) -> pd.DataFrame:
    """Read a table without the columns of its keys, and check that it is of the kind that `schema` describes.

    Raises:
        UserError: the file is missing, damaged, changed, or another kind of table.
    """
    _check_suffix(path, ".parquet")
    with reading(path, "Parquet"), pq.ParquetFile(path) as file:
        types = {field.name: field.type for field in file.schema_arrow}
        for name, column in schema.columns.items():
            if types.get(name) != _TYPES[column.type]:
                wrong = f"has type {types[name]}, not {column.type}" if name in types else "is missing"
                raise UserError(f"{path} is not a table of the kind {schema.name!r}: column {name!r} {wrong}")
        stamp = _parsed((file.schema_arrow.metadata or {}).get(_PROVENANCE.encode(), b"").decode())
        frame = file.read(columns=list(schema.columns)).to_pandas()
        content = checksums.of_table(frame)  # only now is text decoded
    _verify(path, stamp, content, schema.name)
    return frame


def _check_suffix(path: Path, suffix: str) -> None:
    """Check the end of a file's name, by which a command finds the files whose lineages it compares."""
    if path.suffix != suffix:
        raise UserError(f"{path}: the name must end in {suffix}; give the file under its own name")


def read_tables(paths: Mapping[Key, Path], schema: Schema) -> dict[Key, pd.DataFrame]:
    """Read several tables of one kind, under the keys of their paths.

    Raises:
        UserError: as `read_table`.
    """
    return {key: read_table(path, schema) for key, path in paths.items()}


def stamp_of(path: Path) -> dict[str, Any]:
    """The provenance and the checksum of a table, of tensors or of a JSON file, as stored; empty if damaged."""
    if path.suffix == ".json":
        with reading(path, "JSON"):
            content = json.loads(path.read_text(encoding="utf-8"))
            return dict(content.get(_PROVENANCE, {})) if isinstance(content, dict) else {}
    if path.suffix == ".safetensors":
        with reading(path, "safetensors"), safe_open(path, framework="numpy") as file:
            stamp_text = (file.metadata() or {}).get(_PROVENANCE, "")
    else:
        with reading(path, "Parquet"):
            metadata = pq.read_schema(path).metadata or {}
        stamp_text = metadata.get(_PROVENANCE.encode(), b"").decode(errors="replace")
    return _parsed(stamp_text)


def provenance_of(path: Path | str) -> dict[str, Any]:
    """The provenance of a file: kind, package version, model, seed, settings, keys, lineage."""
    return {key: value for key, value in stamp_of(Path(path)).items() if key != _CHECKSUM}


def write_tensors(
    tensors: Mapping[str, "Tensor | np.ndarray"],
    path: Path,
    kind: str,
    provenance: Mapping[str, Any],
    keys: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors or arrays with their provenance and keys (`tables.keys`) as safetensors."""
    arrays = {
        name: np.asarray(tensor if isinstance(tensor, np.ndarray) else tensor.detach().cpu().numpy(), order="C")
        for name, tensor in tensors.items()
    }
    metadata = _metadata(_new_stamp(kind, provenance, keys or {}, checksums.of_arrays(arrays)))
    write_atomically(path, lambda to: save_file(arrays, to, metadata=metadata))


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read named tensors as numpy arrays (so that readers need no torch), and their provenance.

    Raises:
        UserError: the file is missing, damaged, or holds another kind of tensors.
    """
    _check_suffix(path, ".safetensors")
    with reading(path, "safetensors"), safe_open(path, framework="numpy") as file:
        stamp = (file.metadata() or {}).get(_PROVENANCE, "")
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays, _verify(path, _parsed(stamp), checksums.of_arrays(arrays), kind)


def write_json(
    content: Any, path: Path, kind: str, provenance: Mapping[str, Any], keys: Mapping[str, str]
) -> None:
    """Write a JSON value with its provenance and keys."""
    stamp = _new_stamp(kind, provenance, keys, checksums.of_json(content))
    write_text(path, json.dumps({_PROVENANCE: stamp, "content": content}, indent=1))


def read_json(path: Path, kind: str) -> tuple[Any, dict[str, Any]]:
    """Read a JSON value that `write_json` wrote, and its provenance.

    Raises:
        UserError: the file is missing, damaged, changed, or of another kind.
    """
    _check_suffix(path, ".json")
    with reading(path, kind, LookupError, TypeError):
        whole = json.loads(path.read_text(encoding="utf-8"))
        stamp, content = dict(whole[_PROVENANCE]), whole["content"]
    return content, _verify(path, stamp, checksums.of_json(content), kind)
