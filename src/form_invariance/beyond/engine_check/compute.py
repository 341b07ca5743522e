"""The fast engine against TransformerLens: each value is computed by both, and the table has their difference.

On a few prompts of each cell, logits, effects of single neurons, attribution, keep-only and transfer are
computed again, by hooks over whole sequences.
"""

import math
from collections.abc import Iterable, Mapping

import pandas as pd
import torch
from torch import Tensor

from form_invariance.beyond.engine_check.sample import NO_LAYER, CheckedPrompts, CheckedValues
from form_invariance.beyond.engine_check.table import COMPARED
from form_invariance.errors import UserError
from form_invariance.experiment.ablation import ablate_all_positions, start_runs
from form_invariance.experiment.intervene import read_replaced
from form_invariance.model.decoder import Decoder, logits
from form_invariance.model.near_readout import Readouts, near_readout
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.stages.attribution.compute import attribute
from form_invariance.stages.patching.compute import patch_neurons
from form_invariance.tables.keys import CellKey

CHECKS = {
    "logits": "the logits at the last token",
    "patch": "the effects of single-neuron patches",
    "no_op": "the effects of patches that change nothing",
    "attribution": "the attributions",
    "keep_only": "the answers' log-probabilities under keep-only",
    "transfer": "the answers' log-probabilities after transfer",
}
"""What each check compares, in words."""

TOLERANCE = {"float32": 1e-4, "tf32": 0.05, "bfloat16": 0.5}
"""The largest error (see the table) that a precision allows.

Each of L layers rounds the residual stream twice, and 2L independent roundings make an error of about u sqrt(2L),
where u is half the distance from 1 to the next number: 2^-24 in float32, 2^-11 in tf32, 2^-8 in bfloat16. The
largest error measured in float32 is 24 times that (5e-6 at 6 layers; docs/performance.md). At 80 layers it would
be 1.8e-5; the tolerance is five times this. In bfloat16 the same calculation gives more than 1 for a deep model,
and the largest error measured is 0.084 at 4 layers. The tolerance there is half of what is measured: it finds a
wrong neuron, position or sign, not a small error. tf32 has three bits more than bfloat16.
"""


@torch.no_grad()
def fast_values(model: Decoder, sample: CheckedPrompts) -> CheckedValues:
    """The package's own values, by the functions that the stages call."""
    first = sample.layers[0]
    right = sample.answers[:, 0]
    cache = build_cache(model, sample.tokens, first)
    corrupt = torch.cat([last_token_neurons(model, partner, first) for partner in sample.partners], dim=1)
    effects = attribute(model, sample.tokens, corrupt, sample.answers, first)
    near = near_readout(model, cache.residual[-1], Readouts())
    values: CheckedValues = {("logits", NO_LAYER): logits(model, cache.residual[-1])}
    for late, layer in enumerate(sample.layers):
        values["attribution", layer] = effects[late]
        if layer not in sample.neurons:
            continue
        neurons = sample.neurons[layer]
        # The last patch sets a neuron to its own value.
        patched = torch.cat([neurons, neurons[:1]])
        patch_values = torch.cat([corrupt[late][:, neurons], cache.neurons[late][:, neurons[:1]]], dim=1)
        patches = patch_neurons(model, cache, layer, patched, patch_values, sample.answers, near)[0]
        values["patch", layer], values["no_op", layer] = patches[:1, :-1], patches[:1, -1:]
    part = next(start_runs(model, sample.tokens, right, first))
    kept = ablate_all_positions(model, part, ~sample.neuron_set[None], sample.means, sample.bos, center=True)
    values["keep_only", NO_LAYER] = kept.probability[0].log()
    donors = last_token_neurons(model, sample.donors, first)
    moved = read_replaced(model, cache, right, sample.neuron_set[None], donors, center=True)
    values["transfer", NO_LAYER] = moved.probability[0].log()
    return {key: value.double().cpu() for key, value in values.items()}


def compare(
    fast: Mapping[CellKey, CheckedValues], slow: Mapping[CellKey, CheckedValues], dtype: str
) -> pd.DataFrame:
    """The engine check table, for all cells."""
    tolerance, rows = TOLERANCE[dtype], []
    for (name, operator), values in fast.items():
        hooked = slow[name, operator]
        attributions = [v.abs().max().item() for (check, _), v in hooked.items() if check == "attribution"]
        for (check, layer), ours in values.items():
            largest = max(attributions) if check == "attribution" else None
            difference, scale, error = distance(check, ours, hooked[check, layer], largest)
            rows.append(
                {
                    "format": name,
                    "operator": operator,
                    "check": check,
                    "layer": layer,
                    "dtype": dtype,
                    "status": COMPARED,
                    "prompts": len(ours),
                    "values": ours.numel(),
                    "difference": difference,
                    "scale": scale,
                    "error": error,
                    "tolerance": tolerance,
                    "within": error <= tolerance,
                }
            )
    return pd.DataFrame(rows)


def distance(check: str, fast: Tensor, slow: Tensor, largest: float | None = None) -> tuple[float, float, float]:
    """Largest difference, scale and error of two tensors of values (see the table).

    Rounding errors of logits and gradients grow with the largest of them. A gradient carries the rounding of every
    layer above, so errors of attributions are relative to the `largest` of all layers, also in a layer without
    effect. An error d of two log-probabilities changes an indirect effect IE by up to d (1 + IE), since 1 + IE is
    the mean of two exponentials.
    """
    if check == "no_op":
        # Neither engine may find an effect.
        fast, slow = torch.stack([fast, slow]), torch.zeros(2, *slow.shape, dtype=slow.dtype)
    difference, scale = (fast - slow).abs(), slow.abs().max()
    by_scale = check in ("logits", "attribution") and scale > 0
    unit = (largest or scale) if by_scale else 1 + slow.abs()
    return difference.max().item(), scale.item(), (difference / unit).max().item()


def not_compared(cells: Iterable[CellKey], dtype: str, reason: str) -> pd.DataFrame:
    """The table of a model that TransformerLens cannot run."""
    rows = [(name, operator, check) for name, operator in cells for check in CHECKS]
    return pd.DataFrame(rows, columns=["format", "operator", "check"]).assign(
        layer=NO_LAYER,
        dtype=dtype,
        status=reason,
        prompts=0,
        values=0,
        difference=math.nan,
        scale=math.nan,
        error=math.nan,
        tolerance=TOLERANCE[dtype],
        within=False,
    )


def require_exact(table: pd.DataFrame, model: str, dtype: str) -> None:
    """Check that the engines agree.

    Raises:
        UserError: they differ by more than the tolerance; the message names the first check and its worst layer.
    """
    wrong = table[(table["status"] == COMPARED) & ~table["within"]]
    for check, words in CHECKS.items():
        rows = wrong[wrong["check"] == check].sort_values("error", na_position="last")
        if rows.empty:
            continue
        worst = rows.iloc[-1]
        where = "" if worst["layer"] == NO_LAYER else f" in layer {worst['layer']}"
        raise UserError(
            f"model {model}: {words}{where} ({check}, {worst['format']} {worst['operator']}) differ from those of "
            f"TransformerLens by up to {worst['difference']:.1e}; the relative error is {worst['error']:.1e}, and "
            f"{dtype} allows {worst['tolerance']:.0e}: the fast engine computes another model than this one"
        )
