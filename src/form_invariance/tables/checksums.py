"""Checksums of the content of a table or of tensors. They do not depend on how a file stores the content."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def of_table(frame: pd.DataFrame) -> str:
    """Digest of a table's column names, types and values, in order. All NaN bit patterns count as equal."""
    digest = hashlib.sha256()
    for name in frame.columns:
        values = frame[name].to_numpy()
        digest.update(f"{name}\0{values.dtype.kind}\0{len(values)}\0".encode())
        if values.dtype.kind == "f":
            digest.update(np.where(np.isnan(values), np.nan, values).tobytes())
        elif values.dtype.kind in "iub":
            digest.update(values.tobytes())
        else:
            texts = [value.encode() if isinstance(value, str) else b"\xff" for value in values]
            digest.update(np.array([len(text) for text in texts], dtype=np.int64).tobytes())
            digest.update(b"".join(texts))
    return digest.hexdigest()


def of_json(content: Any) -> str:
    """Digest of a JSON value."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def of_arrays(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Digest of the names, types, shapes and bytes of arrays, in alphabetical order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
