"""The effect of each shared neuron: it is knocked out alone."""

import numpy as np
import pandas as pd
from torch import Tensor

from form_invariance.experiment.intervene import intervene, start, unmodified
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.model.memory import rows_at_once
from form_invariance.tables.progress import Progress

_MEASURES = ("probability", "normalized_logit")


def single_neuron_masks(circuit: np.ndarray) -> np.ndarray:
    """Each neuron of a circuit (late layers, m) alone, bool, (n, late layers, m), in order of layer and number."""
    places = np.argwhere(circuit)
    rows = np.arange(len(places))
    alone = np.zeros((len(places), *circuit.shape), dtype=bool)
    alone[rows, places[:, 0], places[:, 1]] = True
    return alone


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
        Columns layer, neuron, and of the answer's probability and normalised logit knockout_*: this neuron alone
        at its mean, minus the unmodified model.
    """
    alone = single_neuron_masks(circuit)
    layers, numbers = np.nonzero(circuit)
    columns: dict[str, np.ndarray] = {"layer": layers + run.first, "neuron": numbers}
    if not len(alone):
        names = [f"knockout_{measure}" for measure in _MEASURES]
        return pd.DataFrame({**columns, **dict.fromkeys(names, np.empty(0))})
    started = start(run, tokens, answers, center, batch)
    whole = unmodified(started)
    done = Progress(len(alone), "neurons knocked out").add
    knocked = intervene(started, alone, means, at_once=rows_at_once(run.model), done=done)
    for measure in _MEASURES:
        change = getattr(knocked, measure) - getattr(whole, measure)
        columns[f"knockout_{measure}"] = change.mean(-1).cpu().numpy()
    return pd.DataFrame(columns)
