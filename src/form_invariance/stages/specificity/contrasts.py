"""Own damage against damage to other tasks, and circuit against matched control, with bootstrap intervals.

Every contrast is computed from the same bootstrap samples of each task's prompts, so differences on one task are
paired by prompt, and two tasks are resampled independently. Over cells the bootstrap has two stages: cells are
drawn with replacement, and for each drawn cell one of its samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.neuron_sets import BEST_IN, CIRCUIT
from form_invariance.stages.specificity.compute import (
    INTERVENTIONS,
    Damages,
    NeuronSet,
    mean_over_prompts,
)
from form_invariance.stages.specificity.table import (
    ALL,
    BEYOND,
    CONTROLS,
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
)
from form_invariance.statistics import verdict

CONTRASTED = ("accuracy", "probability", "loss")
"""Metrics that are contrasted; the normalised logit saturates."""


@dataclass(frozen=True)
class Pair:
    """Two mean damages of one cell: the estimate first, then its bootstrap samples; (1 + R,) each."""

    first: np.ndarray
    second: np.ndarray
    control: str = ""


Contrasts = dict[tuple[str, str], Pair]
"""By contrast and task."""


@dataclass(frozen=True)
class _Cell:
    """One circuit in one format under one intervention, in one metric."""

    format: str
    operator: str
    damages: Mapping[str, np.ndarray]  # by task, (1 + R, sets)
    operators: Sequence[str]
    sets: Mapping[str, list[int]]  # positions of the circuit, of the others', each format's best, and each control
    sign: int  # of a knockout 1; of keep-only -1: less damage is better

    def _of(self, task: str, kind: str) -> np.ndarray:
        """Mean damage by the sets of one kind, (1 + R,)."""
        if task == OTHER_OPERATORS:
            others = [self._of(one, kind) for one in self.operators if one != self.operator]
            return np.mean(others, axis=0) if others else np.full(len(next(iter(self.damages.values()))), np.nan)
        own = self.damages[self.operator if task == OWN else task][:, self.sets[kind]]
        return own.mean(1) if own.shape[1] else np.full(len(own), np.nan)

    def _strongest(self, task: str) -> str:
        """The kind of control that is most like a circuit on this task; empty where there is no control."""
        means = {kind: self.sign * self._of(task, kind)[0] for kind in CONTROLS}
        known = {kind: value for kind, value in means.items() if not np.isnan(value)}
        return max(known, key=lambda kind: known[kind]) if known else ""

    def _control(self, task: str) -> tuple[np.ndarray, str]:
        kind = self._strongest(task)
        circuit = self._of(task, CIRCUIT)
        return (self._of(task, kind) if kind else np.full_like(circuit, np.nan)), kind

    def contrasts(self) -> Contrasts:
        """Every contrast of the cell."""
        others = [OTHER_OPERATORS, *(task for task in self.damages if task != self.operator)]
        found: Contrasts = {}
        own, (own_control, own_kind) = self._of(OWN, CIRCUIT), self._control(OWN)
        found["circuit_minus_control", OWN] = Pair(own, own_control, own_kind)
        best = {name: self._of(OWN, name) for name in self.sets if name.startswith(BEST_IN)}
        at_home = best.pop(BEST_IN + self.format, np.full_like(own, np.nan))
        if best:
            found[EXCHANGED, OWN] = Pair(np.mean(list(best.values()), axis=0), at_home)
        found[OTHER_CIRCUITS, OWN] = Pair(own, self._of(OWN, OTHER_CIRCUITS))
        for task in others:
            other, (control, kind) = self._of(task, CIRCUIT), self._control(task)
            found["circuit_minus_control", task] = Pair(other, control, kind)
            found["own_minus_other", task] = Pair(own, other)
            found[BEYOND, task] = Pair(own - own_control, other - control)
        return found


def _described(pair: Pair, sign: int) -> dict[str, Any]:
    """The measured columns of one contrast."""
    first, second = pair.first, pair.second
    difference = sign * (first - second) + 0.0  # no minus zero
    low, high = np.quantile(difference[1:], [0.025, 0.975])
    ratios = np.full(len(first), np.nan)
    if np.quantile(second[1:], 0.025) > 0 and second[0] > 0:
        ratios = first / np.where(second > 0, second, np.inf)
    ratio_low, ratio_high = np.quantile(ratios[1:], [0.025, 0.975])
    return {
        "control": pair.control,
        "first": first[0],
        "second": second[0],
        "ratio": ratios[0],
        "ratio_low": ratio_low,
        "ratio_high": ratio_high,
        "difference": difference[0],
        "low": low,
        "high": high,
        "verdict": verdict(low, high),
    }


def _defined(pair: Pair) -> bool:
    return not np.isnan(pair.first[0] - pair.second[0])


def over_cells(pairs: Sequence[Pair], seed: int, *names: object) -> Pair:
    """Mean over cells of both damages, by a bootstrap over cells and then over each drawn cell's prompts."""
    samples = len(pairs[0].first) - 1
    known = [pair for pair in pairs if _defined(pair)]
    if not known:
        nothing = np.full(samples + 1, np.nan)
        return Pair(nothing, nothing)
    rng = generator(seed, "specificity-cells", *names)
    drawn = rng.integers(len(known), size=(samples, len(known)))
    sample = 1 + rng.integers(samples, size=drawn.shape)
    means = []
    for values in (np.stack([pair.first for pair in known]), np.stack([pair.second for pair in known])):
        means.append(np.append(values[:, 0].mean(), values[drawn, sample].mean(1)))
    controls = {pair.control for pair in known}
    return Pair(means[0], means[1], controls.pop() if len(controls) == 1 else "")


def _positions(sets: Sequence[NeuronSet], operator: str, k: int) -> dict[str, list[int]]:
    own = [(place, one) for place, one in enumerate(sets) if (one.operator, one.k) == (operator, k)]
    kinds = dict.fromkeys([CIRCUIT, *CONTROLS, *(one.neurons for one in sets)])
    others = [
        place
        for place, one in enumerate(sets)
        if one.operator != operator and (one.neurons, one.k) == (CIRCUIT, k) and one.members.any()
    ]
    return {
        **{kind: [place for place, one in own if one.neurons == kind] for kind in kinds},
        OTHER_CIRCUITS: others,
    }


def _by_task(found: Sequence[Damages], name: str, intervention: str, metric: str) -> dict[str, np.ndarray]:
    """Estimate and bootstrap samples of the mean damage by every set, (1 + R, sets), by task."""
    result = {}
    for one in found:
        if (one.format, one.intervention) == (name, intervention):
            result[one.task.name] = np.vstack([mean_over_prompts(one.damage[metric]), one.resampled[metric]])
    return result


def contrasts_table(
    found: Sequence[Damages], sets: Mapping[str, Sequence[NeuronSet]], operators: Sequence[str], seed: int
) -> pd.DataFrame:
    """The specificity_contrasts table of one model.

    Args:
        found: of every format, task and intervention.
        sets: of each format, in the order of `found`'s arrays.
    """
    ks = sorted({one.k for own in sets.values() for one in own})
    rows = []
    for intervention, metric in product(INTERVENTIONS, CONTRASTED):
        damages = {name: _by_task(found, name, intervention, metric) for name in sets}
        sign = 1 if intervention == "knockout" else -1
        for k in ks:
            cells = {
                (name, operator): _Cell(
                    name, operator, damages[name], operators, _positions(sets[name], operator, k), sign
                ).contrasts()
                for name, operator in product(sets, operators)
            }
            for (name, operator), (contrast, task), pair, count in _with_means(cells, operators, seed):
                which = {"format": name, "operator": operator, "k": k, "intervention": intervention}
                named = {"contrast": contrast, "task": task, "metric": metric, "cells": count}
                rows.append(which | named | _described(pair, sign))
    return pd.DataFrame(rows)


def _with_means(
    cells: Mapping[tuple[str, str], Contrasts], operators: Sequence[str], seed: int
) -> Iterator[tuple[tuple[str, str], tuple[str, str], Pair, int]]:
    """Every contrast of every cell, and over cells those whose task is the same for all operators."""
    for cell, own in cells.items():
        for key, pair in own.items():
            yield cell, key, pair, int(_defined(pair))
    keys = {key: None for own in cells.values() for key in own if key[1] not in operators}
    for key in keys:
        pairs = [own[key] for own in cells.values() if key in own]
        yield (ALL, ALL), key, over_cells(pairs, seed, *key), sum(map(_defined, pairs))
