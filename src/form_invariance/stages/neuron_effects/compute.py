"""What each shared neuron does alone: knocked out of the whole model, and left out of the circuit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder
from form_invariance.model.memory import rows_at_once
from form_invariance.model.readout import Readout, join_prompts, stack
from form_invariance.stages.mean_cache.ablation import EvalRun, ablate_last_position, run_unmodified, start_runs
from form_invariance.stages.mean_cache.compute import MeanCache
from form_invariance.stages.run import Run
from form_invariance.tables.progress import track

_MEASURES = ("probability", "normalized_logit")


def single_neuron_masks(circuit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is ablated to learn of each neuron of a circuit what it does.

    Args:
        circuit: bool, (late layers, m), with n neurons.

    Returns:
        Both bool, (n, late layers, m), neurons in order of layer and number: the neuron alone (knockout), and
        everything but the rest of the circuit (keep-only without this neuron).
    """
    places = np.argwhere(circuit)
    rows = np.arange(len(places))
    alone = np.zeros((len(places), *circuit.shape), dtype=bool)
    alone[rows, places[:, 0], places[:, 1]] = True
    return alone, ~circuit | alone


def _ablated(
    model: Decoder, parts: Sequence[EvalRun], masks: np.ndarray, means: MeanCache, center: bool, what: str
) -> Readout:
    """Readout (masks, P), a few masks at a time."""
    step = rows_at_once(model)
    found = []
    for start in track(range(0, len(masks), step), len(masks), what, weight=step):
        some = torch.from_numpy(masks[start : start + step]).to(model.device)
        ablated = [ablate_last_position(model, part, some, means, center) for part in parts]
        found.append(join_prompts([part.rows for part in parts], ablated))
    return stack(found, dim=0)


@torch.no_grad()
def neuron_effects(
    run: Run,
    tokens: Tensor,
    answers: Tensor,
    circuit: np.ndarray,
    means: MeanCache,
    center: bool,
    batch: int = 128,
) -> pd.DataFrame:
    """Mean changes over the eval prompts, at the last token.

    Args:
        tokens: prompts (P, T).
        answers: token ids (P,).
        circuit: bool, (late layers, m).

    Returns:
        Columns layer, neuron, and of the answer's probability and normalised logit: knockout_* (this neuron
        alone at its mean, minus the unmodified model) and keep_* (the circuit, minus the circuit without it,
        all other late neurons at their means).
    """
    model = run.model
    parts = list(start_runs(model, tokens, answers, run.first, batch))
    alone, without = single_neuron_masks(circuit)
    layers, numbers = np.nonzero(circuit)
    columns: dict[str, np.ndarray] = {"layer": layers + run.first, "neuron": numbers}
    if not len(alone):
        names = [f"{kind}_{measure}" for kind in ("knockout", "keep") for measure in _MEASURES]
        return pd.DataFrame({**columns, **dict.fromkeys(names, np.empty(0))})
    whole = join_prompts([part.rows for part in parts], [run_unmodified(model, part, center) for part in parts])
    kept = _ablated(model, parts, ~circuit[None], means, center, "circuits")
    knocked = _ablated(model, parts, alone, means, center, "neurons knocked out")
    left = _ablated(model, parts, without, means, center, "neurons left out")
    for kind, more, less in (("knockout", knocked, whole), ("keep", kept, left)):
        for measure in _MEASURES:
            change = getattr(more, measure) - getattr(less, measure)
            columns[f"{kind}_{measure}"] = change.mean(-1).cpu().numpy()
    return pd.DataFrame(columns)
