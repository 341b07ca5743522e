"""The effect of each shared neuron: it is knocked out alone."""

import numpy as np
import pandas as pd
from torch import Tensor

from form_invariance.experiment.intervene import intervene, start, unmodified
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.model.memory import rows_at_once
from form_invariance.tables.progress import Progress


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
    batch: int = 128,
) -> pd.DataFrame:
    """Mean changes over the eval prompts, at the last token.

    Args:
        tokens: prompts (P, T).
        answers: token ids (P,).
        circuit: bool, (late layers, m).

    Returns:
        Columns layer, neuron and knockout_probability: the answer's probability with this neuron alone at its
        mean, minus the unmodified model's.
    """
    alone = single_neuron_masks(circuit)
    layers, numbers = np.nonzero(circuit)
    table = pd.DataFrame({"layer": layers + run.first, "neuron": numbers})
    if not len(alone):
        return table.assign(knockout_probability=np.empty(0))
    started = start(run, tokens, answers, center=False, size=batch)
    whole = unmodified(started)
    done = Progress(len(alone), "neurons knocked out").add
    knocked = intervene(started, alone, means, at_once=rows_at_once(run.model), done=done)
    change = knocked.probability - whole.probability
    return table.assign(knockout_probability=change.mean(-1).cpu().numpy())
