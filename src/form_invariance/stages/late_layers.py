"""Where the late layers begin, whose neurons are ranked and ablated (method, section 3)."""

from collections.abc import Mapping
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.tables.files import provenance_of


def first_late_layer(late_from: str, n_layers: int, probes: Mapping[str, Path]) -> int:
    """The first late layer.

    Args:
        late_from: half_depth, onset or a layer.
        n_layers: the model's layers.
        probes: probe table of each format; only `onset` reads them.

    Raises:
        UserError: the value is not one of these, or there is no onset.
    """
    if late_from == "half_depth":
        return n_layers // 2
    if late_from == "onset":
        return _first_onset(probes)
    if not late_from.isdecimal() or int(late_from) >= n_layers:
        raise UserError(
            f"late_from: {late_from!r} must be 'half_depth', 'onset' or a layer of 0..{n_layers - 1} of this model"
        )
    return int(late_from)


def _first_onset(probes: Mapping[str, Path]) -> int:
    """The earliest of the formats' onset layers, so that no format's computation is left out."""
    if not probes:
        raise UserError("late_from: onset needs the formats' probe tables; give them with --probes")
    onsets = []
    for name, path in probes.items():
        recorded = provenance_of(path)
        if recorded.get("table") != "probe" or "peak" not in recorded:
            raise UserError(f"{path} is not the probe table of one format; delete it and run snakemake again")
        peak = recorded["peak"]
        if peak["onset"] is None:
            raise UserError(
                f"late_from: onset, but no layer's probe of {name} is right on more than half of its prompts "
                f"(best {peak['accuracy']:.2f} in layer {peak['layer']}); set late_from to half_depth or a number"
            )
        onsets.append(int(peak["onset"]))
    return min(onsets)
