"""Arrays packed for a page: small, and unpacked by the browser's own decompression."""

import base64
import zlib
from typing import Any

import numpy as np

LEVELS = 64
"""Steps of the page's colour scale; the eye cannot distinguish more."""


def pack_bytes(data: np.ndarray) -> str:
    """Base64 of the deflated bytes of an array."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(data).tobytes(), 9)).decode()


def pack_maps(maps: np.ndarray) -> dict[str, Any]:
    """One neuron's K maps of all formats on one scale.

    Args:
        maps: (formats, N), pairs in lexicographic order.

    Returns:
        low, high: the scale's ends; maps: packed bytes, (formats, N), each the difference to the pair before
        modulo `LEVELS`, since neighbouring pairs are alike.
    """
    low, high = float(maps.min()), float(maps.max())
    step = (high - low) / (LEVELS - 1) or 1.0
    codes = np.rint((maps - low) / step).astype(np.int16)
    differences = np.diff(codes, axis=1, prepend=0) % LEVELS
    return {"low": low, "high": high, "maps": pack_bytes(differences.astype(np.uint8))}
