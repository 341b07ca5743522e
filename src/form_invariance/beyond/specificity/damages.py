"""What sets of neurons do to the prompts of one task: in memory, and as a table by prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import Problem
from form_invariance.experiment.controls import NOT_DRAWN, NeuronSet, labels_of
from form_invariance.experiment.intervention_kinds import KEEP_ONLY, KNOCKOUT
from form_invariance.experiment.measurements import TASK_MEANS, UNMODIFIED, measurements

INTERVENTIONS = KEEP_ONLY, KNOCKOUT


@dataclass(frozen=True)
class Damages:
    """What every set does to one task in one format, under one intervention."""

    format: str
    task: str
    problems: Sequence[Problem]  # of its prompts
    undefined: str  # why nothing is measured; empty if it is
    intervention: str
    ablated: Mapping[str, np.ndarray]  # by metric, (sets, P); NaN for sets without neurons
    damage: Mapping[str, np.ndarray]  # by metric, (sets, P): above zero is worse
    resampled: Mapping[str, np.ndarray]  # by metric, (1 + R, sets): mean damage, and in each bootstrap sample
    before: Mapping[str, np.ndarray]  # by metric, (P,): of the unmodified model; empty if nothing is measured


def measured_prompts(found: Damages, sets: Sequence[NeuronSet]) -> Iterator[pd.DataFrame]:
    """The specificity_prompts table's rows of one task; knockout also gives those of the unmodified model."""
    _, *operands = zip(*found.problems, strict=True)
    a, b = operands if len(operands) == 2 else (-1, operands[0])
    prompts = pd.DataFrame({"index": np.arange(len(found.problems)), "a": a, "b": b})
    setting = {"format": found.format, "task": found.task, "donor": "", "positions": "last", "means": TASK_MEANS}
    tried = ~np.isnan(found.ablated["accuracy"]).any(1)
    nobody = {"operator": found.task, "neurons": "none", "k": 0, "seed": NOT_DRAWN}
    ablated = {name: own[tried] for name, own in found.ablated.items()}
    parts = [(labels_of(sets)[tried], ablated, found.intervention)]
    if found.intervention == KNOCKOUT:
        parts.append((pd.DataFrame([nobody]), dict(found.before), UNMODIFIED))
    for labels, values, intervention in parts:
        values = {**values, "correct": values["accuracy"].astype(bool)}
        yield measurements(labels, prompts, values, **setting, intervention=intervention)
