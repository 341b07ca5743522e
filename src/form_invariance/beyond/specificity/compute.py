"""Is it a circuit of one operator? Each circuit is kept and knocked out on every task (method, section 13).

Everything is done at the last token, where the neurons were ranked. An ablated neuron takes its mean over prompts
of the task itself. The mean over other tasks would move a neuron that is at rest in this one, and do damage
that is not the loss of what the neuron does here.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.damages import INTERVENTIONS, Damages
from form_invariance.beyond.specificity.table import METRICS
from form_invariance.beyond.specificity.tasks import Task
from form_invariance.experiment.contrasts.engine import resampled, resampling
from form_invariance.experiment.controls import NeuronSet, labels_of, masks_of
from form_invariance.experiment.intervene import intervene, start, unmodified
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.readout import Readout
from form_invariance.experiment.run import Run

NOTHING_SHARED = "no neuron is shared"

_SMALLEST = np.finfo(float).tiny


def _values(readout: Readout) -> dict[str, np.ndarray]:
    """The metrics of a readout, of its shape."""
    metrics = readout.metrics()
    return {**metrics, "loss": -np.log(np.maximum(metrics["probability"], _SMALLEST))}


def damages(
    run: Run,
    name: str,
    task: Task,
    sets: Sequence[NeuronSet],
    resamples: int,
    seed: int,
    center: bool,
    interventions: Sequence[str] = INTERVENTIONS,
) -> Iterator[Damages]:
    """Interventions by the sets that are tried on a task; nothing is run where the task is undefined.

    Args:
        name: the format.
        resamples: bootstrap resamples over the prompts, the same for all sets.
    """
    shape = len(sets), len(task.tokens)
    members = masks_of(sets)
    present = np.array([len(some) > 0 and some.is_for(task.name) for some in sets])
    weights = resampling(task.problems, resamples, seed)
    measured = present.any() and not task.undefined
    before = {}
    if measured:
        started = start(run, task.tokens, task.answers, center)
        before = _values(unmodified(started))
    for intervention in interventions:
        ablated = {metric: np.full(shape, np.nan) for metric in METRICS}
        damage = {metric: np.full(shape, np.nan) for metric in METRICS}
        means = {metric: np.full((1 + resamples, len(sets)), np.nan) for metric in METRICS}
        if measured:
            masks = INTERVENED[intervention](members[present])
            for metric, values in _values(intervene(started, masks, task.means, at_once=len(masks))).items():
                ablated[metric][present] = values
                change = before[metric] - ablated[metric]
                damage[metric] = -change if metric == "loss" else change
                means[metric] = resampled(damage[metric], weights)
        yield Damages(name, task.name, task.problems, task.undefined, intervention, ablated, damage, means, before)


def matrix(measured: Damages, sets: Sequence[NeuronSet], center: bool) -> pd.DataFrame:
    """The specificity table's rows of one task, one for each set that is tried on it."""
    chosen = np.array([some.is_for(measured.task) for some in sets])
    sizes = [len(some) for some, wanted in zip(sets, chosen, strict=True) if wanted]
    table = labels_of(sets)[chosen].assign(
        format=measured.format,
        intervention=measured.intervention,
        task=measured.task,
        n_neurons=sizes,
        prompts=len(measured.problems),
        undefined=[measured.undefined or ("" if size else NOTHING_SHARED) for size in sizes],
        centered=center,
    )
    for metric in METRICS:
        damage, *drawn = measured.resampled[metric][:, chosen]
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        ablated = measured.ablated[metric][chosen]
        table[metric] = ablated.mean(1) if ablated.shape[1] else np.nan
        for column, values in zip(("damage", "low", "high"), (damage, low, high), strict=True):
            table[f"{metric}_{column}"] = values
    return table
