"""Stage 2 in pieces: each job patches some of the late layers, and the pieces are joined again."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from form_invariance.errors import UserError
from form_invariance.model.readouts import Readouts

Shard = tuple[dict[str, np.ndarray], dict[str, Any]]
"""Tensors and provenance of one piece."""


def layers_of(shard: str, late: range) -> list[int]:
    """The late layers of one piece. Lower layers cost more, so layers are assigned to the pieces in turn.

    Args:
        shard: number of the piece and of all pieces, for instance 1/4.
        late: all late layers.

    Raises:
        UserError: there is no such piece, or it would be empty.
    """
    number, slash, count = shard.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UserError(f"--shard: {shard!r} must be a piece and the number of pieces, such as 1/4")
    if int(count) > len(late):
        raise UserError(f"patching_shards: {count} is more than the {len(late)} late layers of this model")
    return list(late)[int(number) - 1 :: int(count)]


def merge(shards: Mapping[Path, Shard]) -> Shard:
    """All pieces as if one job had computed them.

    Raises:
        UserError: the pieces are of different runs, overlap, or leave a layer out.
    """
    merged: dict[str, np.ndarray] = {}
    settings: dict[str, Any] = {}
    readouts: list[Readouts] = []
    for path, (tensors, provenance) in shards.items():
        recorded = {key: value for key, value in provenance.items() if key not in ("shard", "table", "version")}
        readouts += [Readouts(**recorded.pop("readouts"))] if "readouts" in recorded else []
        if settings and recorded != settings:
            raise UserError(
                f"{path} is of another model or run than the pieces before it; delete it and run again"
            )
        if merged.keys() & tensors.keys():
            raise UserError(f"{path} holds layers that another piece holds too; give each piece once")
        settings = recorded
        merged |= tensors
    for layer in range(settings["first_late_layer"], settings["n_layers"]):
        if f"effects.{layer}" not in merged:
            raise UserError(f"--shards: no piece holds layer {layer}; give all pieces of the cell")
    return merged, {**settings, **({"readouts": asdict(sum(readouts, Readouts()))} if readouts else {})}
