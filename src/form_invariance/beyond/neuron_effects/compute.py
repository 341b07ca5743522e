"""The effect of each shared neuron: it is knocked out alone."""

import numpy as np
import pandas as pd
from torch import Tensor

from form_invariance.experiment.intervene import intervene, start, unmodified
from form_invariance.experiment.means import MeanCache
from form_invariance.experiment.run import Run
from form_invariance.model.memory import rows_at_once
from form_invariance.tables.progress import Progress


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
    layers, numbers = np.nonzero(circuit)
    table = pd.DataFrame({"layer": layers + run.first, "neuron": numbers})
    if table.empty:
        return table.assign(knockout_probability=np.empty(0))
    alone = np.zeros((len(table), *circuit.shape), dtype=bool)
    alone[np.arange(len(table)), layers, numbers] = True
    started = start(run, tokens, answers, center=False, size=batch)
    whole = unmodified(started)
    done = Progress(len(alone), "neurons knocked out").add
    knocked = intervene(started, alone, means, at_once=rows_at_once(run.model), done=done)
    change = knocked.probability - whole.probability
    return table.assign(knockout_probability=change.mean(-1).cpu().numpy())
