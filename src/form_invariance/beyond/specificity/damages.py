"""What sets of neurons do to the prompts of one task: in memory, and as a table by prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts import Problem
from form_invariance.experiment.controls import NeuronSet, labels_of

KEEP_ONLY, KNOCKOUT = INTERVENTIONS = "keep_only", "knockout"


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
    weights: np.ndarray  # (P, 1 + R): how often each prompt is in the sample, and in each bootstrap sample


def damage_by_prompt(found: Damages, sets: Sequence[NeuronSet]) -> pd.DataFrame:
    """The specificity_prompts table's rows of one task on numbers or words: the damage by every set."""
    place, prompt = np.nonzero(~np.isnan(found.damage["accuracy"]))
    _, a, b = zip(*found.problems, strict=True)
    return (
        labels_of(sets)
        .iloc[place]
        .reset_index(drop=True)
        .assign(
            format=found.format,
            task=found.task,
            a=np.array(a)[prompt],
            b=np.array(b)[prompt],
            intervention=found.intervention,
            lost=found.damage["accuracy"][place, prompt].astype(np.int64),
            probability=found.damage["probability"][place, prompt],
        )
    )
