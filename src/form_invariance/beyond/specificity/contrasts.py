"""Damage to the own operator against damage to other tasks, and circuit against matched control.

Every contrast is computed from the same bootstrap samples of each task's problems, so differences on one task are
paired by prompt, and two tasks are resampled independently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.damages import KNOCKOUT, Damages
from form_invariance.beyond.specificity.table import (
    BEYOND,
    CONTROLS,
    EXCHANGED,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
    RATIO,
)
from form_invariance.experiment.contrasts import Draws, Pair, Problem, described, limits, rows, strongest
from form_invariance.experiment.controls import NeuronSet
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT

CONTRASTED = ("accuracy", "probability", "loss")
"""Metrics that are contrasted; the normalised logit saturates."""

Contrasts = dict[tuple[str, str], Pair]
"""By contrast and task."""


@dataclass(frozen=True)
class _Cell:
    """One circuit in one format under one intervention, in one metric."""

    format: str
    operator: str
    damages: Mapping[str, np.ndarray]  # by task, (1 + R, sets)
    problems: Mapping[str, Sequence[Problem]]  # by task
    operators: Sequence[str]
    sets: Mapping[str, list[int]]  # positions of the circuit, of the others', each format's best, and each control
    sign: int  # of a knockout 1; of keep-only -1: less damage is better
    bounded: bool  # a prompt's damage lies between -1 and 1

    def _of(self, task: str, kind: str) -> np.ndarray:
        """Mean damage by the sets of one kind, (1 + R,)."""
        damages = [self.damages[one][:, self.sets[kind]] for one in self._tasks(task)]
        if not damages or not self.sets[kind]:
            return np.full(len(next(iter(self.damages.values()))), np.nan)
        return np.mean([damage.mean(1) for damage in damages], axis=0)

    def _tasks(self, task: str) -> list[str]:
        """The tasks that a name means."""
        if task == OTHER_OPERATORS:
            return [other for other in self.operators if other != self.operator]
        return [self.operator if task == OWN else task]

    def _control(self, task: str) -> tuple[np.ndarray, str, Draws]:
        """The strongest control on a task, its name, and the mean damage by each of its draws."""
        every = {kind: self._of(task, kind) for kind in CONTROLS}
        control = strongest({kind: values[0] for kind, values in every.items()}, self.sign)
        if control not in every:
            return np.full_like(self._of(task, CIRCUIT), np.nan), control, {}
        draws = np.mean([self.damages[one][0, self.sets[control]] for one in self._tasks(task)], axis=0)
        return every[control], control, {f"{self.operator} {control}": draws}

    def _pair(
        self, task: str, first: np.ndarray, second: np.ndarray, control: str = "", draws: Draws | None = None
    ) -> Pair:
        return Pair(first, second, (self._problems(task),), control, draws or {}, self.bounded)

    def _problems(self, task: str) -> Sequence[Problem]:
        """Those of a task; of several tasks those of the one with the fewest."""
        return min((self.problems[one] for one in self._tasks(task)), key=len, default=())

    def _fewer(self, task: str) -> str:
        """Of the own operator and another task the one with fewer prompts."""
        return min(OWN, task, key=lambda one: len(self._problems(one)))

    def contrasts(self) -> Contrasts:
        """Every contrast of the cell."""
        own, (own_control, own_kind, own_draws) = self._of(OWN, CIRCUIT), self._control(OWN)
        contrasts = {("circuit_minus_control", OWN): self._pair(OWN, own, own_control, own_kind, own_draws)}
        best = {name: self._of(OWN, name) for name in self.sets if name.startswith(BEST_IN)}
        at_home = best.pop(BEST_IN + self.format, np.full_like(own, np.nan))
        if best:
            others = np.mean(list(best.values()), axis=0)
            beyond = [self.sign * (damage - own_control) for damage in (others, at_home)]
            contrasts[EXCHANGED, OWN] = self._pair(OWN, beyond[0], beyond[1], own_kind)
        contrasts[OTHER_CIRCUITS, OWN] = self._pair(OWN, own, self._of(OWN, OTHER_CIRCUITS))
        for task in [OTHER_OPERATORS, *(task for task in self.damages if task != self.operator)]:
            other, (control, kind, draws) = self._of(task, CIRCUIT), self._control(task)
            contrasts["circuit_minus_control", task] = self._pair(task, other, control, kind, draws)
            contrasts["own_minus_other", task] = self._pair(self._fewer(task), own, other)
            # A stream of both tasks drew the same neurons for both.
            both = {
                **own_draws,
                **draws,
                **{name: own_draws[name] - draws[name] for name in own_draws if name in draws},
            }
            contrasts[BEYOND, task] = self._pair(self._fewer(task), own - own_control, other - control, draws=both)
        return contrasts


def _described(pair: Pair, sign: int) -> dict[str, Any]:
    """The measured columns of one contrast; without a ratio where the second damage is not surely above zero."""
    second = limits(pair.second, pair.problems, pair.bounded)[:2]
    ratios = np.full(len(pair.first), np.nan)
    if second[0] > 0:
        ratios = pair.first / np.where(pair.second > 0, pair.second, np.inf)
    values = ratios[0], *limits(ratios, pair.problems, bounded=False)
    if np.isnan(values[1]) and second[0] > 0:  # no resample changes the ratio: what was not seen on any prompt
        unseen = limits(pair.first - ratios[0] * pair.second, pair.problems, pair.bounded)[1]
        half = unseen * max(1, abs(ratios[0])) / second[0]
        values = ratios[0], ratios[0] - half, ratios[0] + half, 0.0
    return described(pair, sign) | dict(zip(RATIO, values, strict=True))


def _positions(sets: Sequence[NeuronSet], operator: str, k: int) -> dict[str, list[int]]:
    """Which of the sets are of each kind, at one k: those of the operator, and the other operators' circuits."""
    places: dict[str, list[int]] = {kind: [] for kind in (CIRCUIT, OTHER_CIRCUITS, *CONTROLS)}
    for place, some in enumerate(sets):
        if some.label["k"] == k and some.label["operator"] == operator:
            places.setdefault(some.label["neurons"], []).append(place)
        elif some.label["k"] == k and some.label["neurons"] == CIRCUIT and len(some):
            places[OTHER_CIRCUITS].append(place)
    return places


def contrasts_table(
    damages: Sequence[Damages], sets: Mapping[str, Sequence[NeuronSet]], operators: Sequence[str]
) -> pd.DataFrame:
    """The specificity_contrasts table of one model.

    Args:
        damages: of every format, task and intervention that is contrasted.
        sets: of each format, in the order of the damages' arrays.
    """
    ks = sorted({some.label["k"] for of_format in sets.values() for some in of_format})
    found = []
    interventions = dict.fromkeys(one.intervention for one in damages)
    metrics = [metric for metric in CONTRASTED if metric in damages[0].resampled]
    for intervention, metric in product(interventions, metrics):
        sign = 1 if intervention == KNOCKOUT else -1
        by_task = {
            name: {one.task: one for one in damages if (one.format, one.intervention) == (name, intervention)}
            for name in sets
        }
        for k in ks:
            cells = {
                (name, operator): _Cell(
                    name,
                    operator,
                    {task: one.resampled[metric] for task, one in by_task[name].items()},
                    {task: one.problems for task, one in by_task[name].items()},
                    operators,
                    _positions(sets[name], operator, k),
                    sign,
                    metric != "loss",
                ).contrasts()
                for name, operator in product(sets, operators)
            }
            for (contrast, task), row in _rows(cells, operators, sign):
                which = {
                    "k": k,
                    "intervention": intervention,
                    "contrast": contrast,
                    "task": task,
                    "metric": metric,
                }
                found.append({**which, **row})
    return pd.DataFrame(found)


def _rows(
    cells: Mapping[tuple[str, str], Contrasts], operators: Sequence[str], sign: int
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Rows of every contrast in every cell, and over cells where the task is the same for all operators."""
    for key in {key: None for contrasts in cells.values() for key in contrasts}:
        pairs = {cell: contrasts[key] for cell, contrasts in cells.items() if key in contrasts}
        describe = partial(_described, sign=1 if key[0] == EXCHANGED else sign)
        if key[1] in operators:
            for (name, operator), pair in pairs.items():
                yield key, {"format": name, "operator": operator, **describe(pair)}
        else:
            for row in rows(pairs, "format", describe):
                yield key, row
