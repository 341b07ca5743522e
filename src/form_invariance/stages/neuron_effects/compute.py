"""What each shared neuron does alone: knocked out of the whole model, and left out of the circuit."""

import numpy as np
import pandas as pd
from torch import Tensor

from form_invariance.model.memory import rows_at_once
from form_invariance.stages.intervene import intervene, start, unmodified
from form_invariance.stages.mean_cache.compute import MeanCache
from form_invariance.stages.run import Run
from form_invariance.tables.progress import Progress

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
    alone, without = single_neuron_masks(circuit)
    layers, numbers = np.nonzero(circuit)
    columns: dict[str, np.ndarray] = {"layer": layers + run.first, "neuron": numbers}
    if not len(alone):
        names = [f"{kind}_{measure}" for kind in ("knockout", "keep") for measure in _MEASURES]
        return pd.DataFrame({**columns, **dict.fromkeys(names, np.empty(0))})
    started = start(run, tokens, answers, center, batch)
    whole, kept = unmodified(started), intervene(started, ~circuit[None], means)
    knocked, left = (
        intervene(
            started,
            masks,
            means,
            at_once=rows_at_once(run.model),
            done=Progress(len(masks), f"neurons {what}").add,
        )
        for masks, what in ((alone, "knocked out"), (without, "left out"))
    )
    for kind, more, less in (("knockout", knocked, whole), ("keep", kept, left)):
        for measure in _MEASURES:
            change = getattr(more, measure) - getattr(less, measure)
            columns[f"{kind}_{measure}"] = change.mean(-1).cpu().numpy()
    return pd.DataFrame(columns)
