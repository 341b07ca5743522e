"""What else do the neurons do? Circuits and the best neurons are knocked out on other tasks (method, section 13).

All interventions are at the last token, where the neurons were ranked. An ablated neuron takes its mean over
prompts of the task itself. A mean over other tasks would move a neuron that is inactive in this one, and so cause
a loss that is not due to the neuron's function here.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.tasks import TaskPrompts
from form_invariance.experiment.controls import NOT_DRAWN, Draws, NeuronSet, labels_of, masks_of, with_half_means
from form_invariance.experiment.intervene import intervene, start, unmodified
from form_invariance.experiment.intervention_kinds import KNOCKOUT
from form_invariance.experiment.measurements import TASK_MEANS, UNMODIFIED, readout_rows
from form_invariance.experiment.ranked_sets import Ranked, best_of, circuit_controls, circuits
from form_invariance.experiment.run import Run


def sets_of(
    ranked: Ranked, ks: Sequence[int], format: str, values: Mapping[str, Mapping[str, np.ndarray]], draws: Draws
) -> list[NeuronSet]:
    """Every operator's circuit, the circuit's matched controls, and the best in the format of the prompts.

    Circuits and best are also ranked by either half of the train prompts. Sets without neurons are left out.

    Args:
        values: as in `circuit_controls`.
    """
    sets: list[NeuronSet] = []
    for k in ks:
        sets += circuits(ranked, k)
        sets += circuit_controls(ranked, k, values, draws)
        sets += best_of(ranked, k, ((format, operator) for operator in ranked.operators))
    return [neuron_set for neuron_set in sets if len(neuron_set)]


def task_rows(run: Run, task: TaskPrompts, sets: Sequence[NeuronSet], center: bool) -> Iterator[pd.DataFrame]:
    """The measurements on one task: of the unmodified model, and with each set knocked out.

    Nothing runs without sets, or on a task with too few right answers.

    Args:
        sets: as in `sets_of`.
    """
    if not sets or task.undefined:
        return
    prompts = task.operands()
    started = start(run, task.tokens, task.answers, center)
    nobody = pd.DataFrame([{"operator": task.name, "neurons": "none", "k": 0, "seed": NOT_DRAWN}])
    setting = {"task": task.name, "donor": "", "positions": "last", "means": TASK_MEANS}
    yield readout_rows(unmodified(started)[None], nobody, prompts, **setting, intervention=UNMODIFIED)
    for means, neuron_sets in [(task.means, sets), *with_half_means(sets, task.means)]:
        ablated = intervene(started, masks_of(neuron_sets), means, at_once=len(sets))
        yield readout_rows(ablated, labels_of(neuron_sets), prompts, **setting, intervention=KNOCKOUT)
