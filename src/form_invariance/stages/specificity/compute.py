"""Is it a circuit of one operator? Each circuit is kept and knocked out on every task (method, section 13).

Everything is done at the last token, where the neurons were ranked. An ablated neuron takes its mean over prompts
of the task itself. The mean over other tasks would move a neuron that is at rest in this one, and do damage
that is not the loss of what the neuron does here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from form_invariance.model.readout import Readout, join_prompts
from form_invariance.stages.circuit.controls import as_many_best, draw_controls
from form_invariance.stages.mean_cache.ablation import ablate_last_position, start_runs, unmodified
from form_invariance.stages.neuron_sets import BEST_IN, CIRCUIT
from form_invariance.stages.run import Run
from form_invariance.stages.specificity.table import CONTROLS as CONTROLS
from form_invariance.stages.specificity.table import METRICS
from form_invariance.stages.specificity.tasks import Task
from form_invariance.statistics import bootstrap_weights

INTERVENTIONS = ("keep_only", "knockout")
NOTHING_SHARED = "no neuron is shared"

_SMALLEST = np.finfo(float).tiny


@dataclass(frozen=True)
class NeuronSet:
    """An operator's shared circuit at one k, or a control of it."""

    operator: str
    k: int
    neurons: str
    seed: int
    members: np.ndarray  # bool, (late layers, m)


@dataclass(frozen=True)
class Damages:
    """What every set does to one task in one format, under one intervention."""

    format: str
    task: Task
    intervention: str
    ablated: Mapping[str, np.ndarray]  # by metric, (sets, P); NaN for sets without neurons
    damage: Mapping[str, np.ndarray]  # by metric, (sets, P): above zero is worse
    resampled: Mapping[str, np.ndarray]  # by metric, (R, sets): mean damage in each bootstrap sample


def neuron_sets(
    operator: str,
    circuits: Mapping[int, np.ndarray],
    values: Mapping[str, np.ndarray],
    rank: Mapping[str, np.ndarray],
    draws: int,
    seed: int,
) -> list[NeuronSet]:
    """An operator's circuits, every format's best neurons, and matched controls: as many in the same layers.

    A circuit without neurons has neither, and one with too few neurons outside it has no control.

    Args:
        circuits: mask of each k, bool, (late layers, m).
        values: what each kind of control is matched by, (late layers, m), NaN = not available.
        rank: of the neurons in each format, (late layers, m), 1 = best, NaN = not ranked.
        draws: of each kind.
    """
    sets = []
    for k, members in circuits.items():
        sets.append(NeuronSet(operator, k, CIRCUIT, -1, members))
        for name, ranked in rank.items() if members.any() else ():
            best = as_many_best(members, ranked)
            if best is not None:
                sets.append(NeuronSet(operator, k, BEST_IN + name, -1, best))
        for kind, matched in values.items() if members.any() else ():
            for draw in range(draws):
                control = draw_controls(members, matched, seed, operator, kind, k, draw)
                if control is not None:
                    sets.append(NeuronSet(operator, k, kind, draw, control))
    return sets


def _values(readout: Readout) -> dict[str, np.ndarray]:
    """The metrics of a readout, of its shape."""
    found = readout.metrics()
    return {**found, "loss": -np.log(np.maximum(found["probability"], _SMALLEST))}


def _ablated(run: Run, task: Task, masks: np.ndarray, center: bool) -> Readout:
    """Readout (sets, P) with the neurons in masks (sets, late layers, m) at their means at the last token."""
    ablated = torch.from_numpy(masks).to(run.model.device)
    every, found = [], []
    with torch.no_grad():
        for part in start_runs(run.model, task.tokens, task.answers, run.first):
            every.append(part.rows)
            found.append(ablate_last_position(run.model, part, ablated, task.means, center))
    return join_prompts(every, found)


def damages(
    run: Run, name: str, task: Task, sets: Sequence[NeuronSet], resamples: int, seed: int, center: bool
) -> Iterator[Damages]:
    """Both interventions of every set on one task; nothing is run where the task is undefined.

    Args:
        name: the format.
        resamples: bootstrap resamples over the prompts, the same for all sets.
    """
    prompts = len(task.tokens)
    shape = len(sets), prompts
    members = np.stack([one.members for one in sets])
    present = members.any(axis=(1, 2))
    measured = present.any() and not task.undefined
    before = _values(unmodified(run.model, task.tokens, task.answers, run.first, center)) if measured else {}
    names = "specificity", name, task.name
    weights = bootstrap_weights(prompts, resamples, seed, *names) / prompts if measured else np.empty((0, 0))
    for intervention in INTERVENTIONS:
        ablated = {metric: np.full(shape, np.nan) for metric in METRICS}
        damage = {metric: np.full(shape, np.nan) for metric in METRICS}
        resampled = {metric: np.full((resamples, len(sets)), np.nan) for metric in METRICS}
        if measured:
            masks = members[present] if intervention == "knockout" else ~members[present]
            for metric, values in _values(_ablated(run, task, masks, center)).items():
                ablated[metric][present] = values
                change = before[metric] - ablated[metric]
                damage[metric] = -change if metric == "loss" else change
                resampled[metric] = weights @ damage[metric].T
        yield Damages(name, task, intervention, ablated, damage, resampled)


def mean_over_prompts(values: np.ndarray) -> np.ndarray:
    """Means (sets,) of values (sets, P); NaN without prompts."""
    return values.mean(1) if values.shape[1] else np.full(len(values), np.nan)


def matrix(found: Damages, sets: Sequence[NeuronSet], center: bool) -> pd.DataFrame:
    """The specificity table's rows of one task, one a set."""
    sizes = [int(one.members.sum()) for one in sets]
    table = pd.DataFrame(
        {
            "format": found.format,
            "operator": [one.operator for one in sets],
            "k": [one.k for one in sets],
            "intervention": found.intervention,
            "task": found.task.name,
            "neurons": [one.neurons for one in sets],
            "seed": [one.seed for one in sets],
            "n_neurons": sizes,
            "prompts": len(found.task.tokens),
            "undefined": [found.task.undefined or ("" if size else NOTHING_SHARED) for size in sizes],
            "centered": center,
        }
    )
    for metric in METRICS:
        low, high = np.quantile(found.resampled[metric], [0.025, 0.975], axis=0)
        means = [mean_over_prompts(own[metric]) for own in (found.ablated, found.damage)]
        for column, values in zip(("", "_damage", "_low", "_high"), (*means, low, high), strict=True):
            table[f"{metric}{column}"] = values
    return table
