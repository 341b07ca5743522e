"""Where the late layers begin, whose neurons are ranked and ablated (method, section 3)."""

from collections.abc import Mapping
from pathlib import Path

from form_invariance.errors import UserError


def first_late_layer(late_from: str, n_layers: int, probes: Mapping[str, Path]) -> int:
    """The first late layer.

    Args:
        late_from: half_depth, onset or a layer.
        n_layers: the model's layers.
        probes: probe table of each format; only `onset` reads them.

    Raises:
        UserError: it is none of these, or there is no onset.
    """
    if late_from == "half_depth":
        return n_layers // 2
    if late_from == "onset":
        return _onset(probes)
    if not late_from.isdecimal() or int(late_from) >= n_layers:
        raise UserError(
            f"late_from: {late_from!r} must be 'half_depth', 'onset' or a layer of 0..{n_layers - 1} of this model"
        )
    return int(late_from)


def _onset(probes: Mapping[str, Path]) -> int:
    from form_invariance.stages.probe.summary import first_onset
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import read_tables

    if not probes:
        raise UserError("late_from: onset needs the formats' probe tables; give them with --probes")
    return first_onset(read_tables(probes, PROBE))
