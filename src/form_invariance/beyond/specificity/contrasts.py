"""Damage to the own operator against damage to other tasks, and circuit against matched control.

Every contrast is computed from the same bootstrap samples of each task's problems, so differences on one task are
paired by prompt, and two tasks are resampled independently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.specificity.damages import KNOCKOUT, Damages
from form_invariance.beyond.specificity.ratios import with_ratio
from form_invariance.beyond.specificity.strongest import strongest_by_half
from form_invariance.beyond.specificity.table import (
    ANY_OPERATOR,
    BEYOND,
    CIRCUIT_OF,
    COMMON,
    CONTROL_OF,
    CONTROLS,
    COPYING,
    EXCHANGED,
    HALF,
    LOSS,
    LOSSES,
    OTHER_CIRCUITS,
    OTHER_OPERATORS,
    OWN,
    OWN_BEST,
    PARTS,
    SPARED,
)
from form_invariance.experiment.contrasts import NO_CONTROL, Pair, Problem, rows, strongest
from form_invariance.experiment.controls import NeuronSet
from form_invariance.experiment.neuron_sets import BEST_IN, CIRCUIT, HALVES
from form_invariance.experiment.noise import Draws

CONTRASTED = ("accuracy", "probability", "loss")
"""Metrics that are contrasted; the normalised logit saturates."""

_SIGNED = ("own_minus_other", "circuit_minus_control", OTHER_CIRCUITS, CIRCUIT_OF, BEYOND)
"""Contrasts of damages; in the others more is always more."""

Contrasts = dict[tuple[str, str], Pair]
"""By contrast and task."""


Places = Mapping[str, list[int]]
"""Positions of the sets of each kind; a kind without sets is absent."""


@dataclass(frozen=True)
class _Cell:
    """One operator's neurons in one format under one intervention, in one metric."""

    format: str
    operator: str
    damages: Mapping[str, np.ndarray]  # by task, (1 + R, sets)
    problems: Mapping[str, Sequence[Problem]]  # by task
    by_prompt: np.ndarray  # damages to the own operator's prompts, (sets, P)
    weights: np.ndarray  # of these prompts in each resample, (P, 1 + R)
    several: Mapping[str, Sequence[str]]  # the tasks that OWN, OTHER_OPERATORS and COPYING mean
    own: Places
    others: Mapping[str, Places]  # of every other operator
    sign: int  # of a knockout 1; of keep-only -1: less damage is better
    bounded: bool  # a prompt's damage lies between -1 and 1

    def _of(self, task: str, *places: list[int]) -> np.ndarray:
        """Mean damage by groups of sets, (1 + R,): every group counts once, and so does every task."""
        damages = [self.damages[one][:, some].mean(1) for one in self._tasks(task) for some in places if some]
        return np.mean(damages, axis=0) if damages else np.full(len(next(iter(self.damages.values()))), np.nan)

    def _tasks(self, task: str) -> Sequence[str]:
        """The tasks that a name means."""
        return self.several.get(task, [task])

    def _strongest(self, task: str, places: Places) -> str:
        """The kind of sets that do most, or in keep-only least; `NO_CONTROL` without any."""
        return strongest({kind: self._of(task, some)[0] for kind, some in places.items() if some}, self.sign)

    def _controls(self, of: str = "") -> Places:
        """The controls of the circuit, or of another set."""
        every = {kind: self.own.get(kind + of, []) for kind in CONTROLS}
        return {kind: some for kind, some in every.items() if some}

    def _control(self, task: str) -> tuple[np.ndarray, str, Draws]:
        """The circuit's strongest control on a task, its name, and the mean damage by each of its draws."""
        places = self._controls()
        control = self._strongest(task, places)
        if control == NO_CONTROL or not self._tasks(task):
            return self._of(task), control, {}
        draws = np.mean([self.damages[one][0, places[control]] for one in self._tasks(task)], axis=0)
        return self._of(task, places[control]), control, {f"{self.operator} {control}": draws}

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
        """Every contrast of the cell, with its values by either half of the train prompts."""
        by_half = [self._by_half(half)._contrasts() for half in HALVES]
        return {
            key: replace(
                pair,
                halves=np.array(
                    [[half[key].first[0] for half in by_half], [half[key].second[0] for half in by_half]]
                ),
            )
            for key, pair in self._contrasts().items()
        }

    def _contrasts(self) -> Contrasts:
        return {**self._of_circuit(), **self._of_other_circuits(), **self._of_best()}

    def _by_half(self, half: str) -> "_Cell":
        """The cell with neurons that one half of the train prompts ranked, without resamples; it has no parts."""

        def ranked(places: Places) -> Places:
            controls = {kind: some for kind, some in places.items() if kind in CONTROLS or CONTROL_OF in kind}
            return controls | {
                kind.removeprefix(half): some for kind, some in places.items() if kind.startswith(half)
            }

        others = {operator: ranked(places) for operator, places in self.others.items()}
        damages = {task: values[:1] for task, values in self.damages.items()}
        weights = self.weights[:, :1]
        return replace(self, damages=damages, weights=weights, own=ranked(self.own), others=others)

    def _of_circuit(self) -> Contrasts:
        """The circuit on its own operator and on every other task, and its controls."""
        circuit = self.own.get(CIRCUIT, [])
        own, (own_control, own_kind, own_draws) = self._of(OWN, circuit), self._control(OWN)
        contrasts = {("circuit_minus_control", OWN): self._pair(OWN, own, own_control, own_kind, own_draws)}
        for task in [OTHER_OPERATORS, COPYING, *(task for task in self.damages if task != self.operator)]:
            other, (control, kind, draws) = self._of(task, circuit), self._control(task)
            fewer, beyond = self._fewer(task), (own - own_control, other - control)
            contrasts["circuit_minus_control", task] = self._pair(task, other, control, kind, draws)
            contrasts["own_minus_other", task] = self._pair(fewer, own, other)
            # A stream of both tasks drew the same neurons for both.
            both = {
                **own_draws,
                **draws,
                **{name: own_draws[name] - draws[name] for name in own_draws if name in draws},
            }
            contrasts[BEYOND, task] = self._pair(fewer, *beyond, draws=both)
            if task == COPYING:
                whole = self.sign * beyond[0]
                contrasts[SPARED, task] = self._pair(fewer, whole - self.sign * beyond[1], whole, own_kind)
        return contrasts

    def _of_other_circuits(self) -> Contrasts:
        """The circuit and each other operator's circuit on the own operator's prompts."""
        own = self._of(OWN, self.own.get(CIRCUIT, []))
        others = {name: places.get(CIRCUIT, []) for name, places in self.others.items()}
        found = {(CIRCUIT_OF, name): self._pair(OWN, own, self._of(OWN, some)) for name, some in others.items()}
        values = {name: self.by_prompt[some].mean(0) for name, some in others.items() if some}
        most = strongest_by_half(values, self.problems[self.operator], self.weights, self.sign)
        return {(OTHER_CIRCUITS, OWN): self._pair(OWN, own, *most), **found}

    def _of_best(self) -> Contrasts:
        """The best neurons of this format, of other formats and of other operators, on the own prompts."""
        here = BEST_IN + self.format
        elsewhere = [kind for kind in self.own if kind.startswith(BEST_IN) and kind != here]
        controls = self._controls(CONTROL_OF + OWN_BEST)
        control = self._strongest(OWN, controls)
        theirs = [places[kind] for places in self.others.values() for kind in elsewhere if kind in places]
        others, own, halves, foreign, level = (
            self.sign * self._of(OWN, *places)
            for places in (
                [self.own[kind] for kind in elsewhere],
                [self.own.get(here, [])],
                [self.own.get(half + here, []) for half in HALVES],
                theirs,
                [controls.get(control, [])],
            )
        )
        found = {
            (EXCHANGED, OWN): self._pair(OWN, others - level, own - level, control),
            (HALF, OWN): self._pair(OWN, halves - level, own - level, control),
            (ANY_OPERATOR, OWN): self._pair(OWN, others, foreign),
        }
        copied = self.sign * self._of(COPYING, self.own.get(here, []))
        on_own = [(OWN, values) for values in (own, others, foreign, level)]
        for name, (task, values) in zip(LOSSES, [*on_own, (COPYING, copied)], strict=True):
            found[LOSS, name] = self._pair(task, values, 0 * np.abs(values))
        for part, contrast in PARTS.items():
            parts, compared = [], []
            for kind in (kind for kind in self.own if kind.startswith(part)):
                matched = self._controls(CONTROL_OF + (OWN_BEST if part == COMMON else kind))
                if matched:
                    parts.append(self.own[kind])
                    compared.append(matched[self._strongest(OWN, matched)])
            found[contrast, OWN] = self._pair(
                OWN, self.sign * self._of(OWN, *parts), self.sign * self._of(OWN, *compared)
            )
        return found


def _positions(sets: Sequence[NeuronSet], k: int) -> dict[str, dict[str, list[int]]]:
    """The positions of the sets with neurons at one k, by operator and kind."""
    places: dict[str, dict[str, list[int]]] = {}
    for place, some in enumerate(sets):
        if some.label["k"] == k and len(some):
            places.setdefault(some.label["operator"], {}).setdefault(some.label["neurons"], []).append(place)
    return places


def contrasts_table(
    damages: Sequence[Damages],
    sets: Mapping[str, Sequence[NeuronSet]],
    operators: Sequence[str],
    copying: Sequence[str] = (),
) -> pd.DataFrame:
    """The specificity_contrasts table of one model.

    Args:
        damages: of every format, task and intervention that is contrasted.
        sets: of each format, in the order of the damages' arrays.
        copying: tasks whose answer is a number of the prompt.
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
            places = {name: _positions(of_format, k) for name, of_format in sets.items()}
            cells = {
                (name, operator): _Cell(
                    name,
                    operator,
                    {task: one.resampled[metric] for task, one in by_task[name].items()},
                    {task: one.problems for task, one in by_task[name].items()},
                    by_task[name][operator].damage[metric],
                    by_task[name][operator].weights,
                    {
                        OWN: [operator],
                        OTHER_OPERATORS: [other for other in operators if other != operator],
                        COPYING: [
                            task for task in copying if task in by_task[name] and not by_task[name][task].undefined
                        ],
                    },
                    places[name].get(operator, {}),
                    {other: own for other, own in places[name].items() if other != operator},
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
        describe = partial(with_ratio, sign=sign if key[0] in _SIGNED else 1)
        if key[1] in operators and key[0] != CIRCUIT_OF:
            for (name, operator), pair in pairs.items():
                yield key, {"format": name, "operator": operator, **describe(pair)}
        else:
            for row in rows(pairs, "format", describe):
                yield key, row
