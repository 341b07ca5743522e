"""The parts of a contrast: mean effects of sets of neurons on the prompts of a cell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.engine import (
    Problem,
    Value,
    average,
    problems_of,
    resampled,
    resampling,
    strongest,
)
from form_invariance.experiment.measurements import METRICS, TEXT, UNMODIFIED

OWN, OTHER_OPERATORS, COPYING = "own", "other_operators", "all_copying"
"""Tasks: the operator's own; the mean over the other operators'; the mean over tasks whose answer is copied."""
COLUMN = {"accuracy": "correct", "rate": "correct"}
"""The columns of metrics that have another name."""
NO_BOUNDS = ("faithfulness", "margin")
"""Metrics whose differences may lie outside -1 to 1."""

_CELL = ["format", "donor", "k"]
_SET = ["task", "operator", "intervention", "positions", "means", "neurons"]


@dataclass(frozen=True)
class Sample:
    """The effect of a set of neurons on each prompt.

    Attributes:
        values: (draws, P).
        prompts: problem and number of each prompt.
        stream: the random stream that drew the neurons; empty if they were not drawn.
    """

    values: np.ndarray
    prompts: Sequence[tuple[Problem, int]]
    stream: str


class Measured:
    """The measurements of a model (`experiment.measurements`), by cell and set of neurons."""

    def __init__(self, table: pd.DataFrame, copying: Sequence[str] = ()) -> None:
        """Index the rows of all tables by prompt; `copying`: tasks whose answer is a number of the prompt."""
        self.operators = list(dict.fromkeys(table["operator"][table["intervention"] != UNMODIFIED]))
        self.formats = list(dict.fromkeys(table["format"]))
        self.neurons = list(dict.fromkeys(table["neurons"]))
        self.others = [name for name in dict.fromkeys(table["task"]) if name not in self.operators]
        self.copying = [task for task in self.others if task in copying]
        self._values = {name: table[name].to_numpy(float) for name in METRICS}
        self._prompts = table[["seed", "index", "a", "b"]].to_numpy()
        self._rows = table.groupby([*_CELL, *_SET], sort=False).indices
        self._samples: dict[tuple[object, ...], Sample | None] = {}

    def sample(self, column: str, *key: object) -> Sample | None:
        """A column's values for a set (format, donor, k, task, operator, intervention, ...), if measured."""
        if (column, *key) not in self._samples:
            self._samples[column, *key] = self._read(column, key)
        return self._samples[column, *key]

    def _read(self, column: str, key: tuple[object, ...]) -> Sample | None:
        if key not in self._rows:
            return None
        rows = np.asarray(self._rows[key])
        rows = rows[np.lexsort(self._prompts[rows, 1::-1].T)]
        seeds, numbers, a, b = self._prompts[rows].T
        draws = len(np.unique(seeds))
        size = len(rows) // draws
        task, operator, *_, neurons = key[len(_CELL) :]
        problems = problems_of(str(task), a[:size], b[:size])
        if task == TEXT:
            problems = [(TEXT, number) for number in b[:size].tolist()]
        values = self._values[column][rows].reshape(draws, size)
        prompts = list(zip(problems, numbers[:size].tolist(), strict=True))
        return Sample(values, prompts, f"{operator} {neurons}" if seeds[0] >= 0 else "")


@dataclass(frozen=True)
class Cell:
    """One operator's neurons in one format, or in one direction of transfer, by one metric.

    Attributes:
        measure: how a metric is read, as in `Contrast.measure`.
        task: the task on which the contrast is evaluated, if there are several.
        half: prefix of the names of neurons that one half of the prompts ranked, or that it gave the means for.
        resamples: bootstrap resamples.
    """

    measured: Measured
    format: str
    operator: str
    k: int
    metric: str
    intervention: str
    positions: str
    means: str
    measure: str
    resamples: int
    seed: int
    donor: str = ""
    task: str = OWN
    half: str = ""

    def by(self, half: str) -> "Cell":
        """The cell with rankings or means from one half of their prompts, without resamples."""
        return replace(self, half=half, resamples=0)

    @cached_property
    def elsewhere(self) -> list[str]:
        """The other formats."""
        return [name for name in self.measured.formats if name != self.format]

    @cached_property
    def other_operators(self) -> list[str]:
        """The other operators."""
        return [name for name in self.measured.operators if name != self.operator]

    def sample(
        self,
        neurons: str,
        whose: str = "",
        on: str = "",
        intervention: str = "",
        metric: str = "",
        ranked: bool = True,
    ) -> Sample | None:
        """The effect of a set on each prompt. For an empty argument, the cell's value is used.

        Args:
            whose: operator whose neurons these are.
            on: task.
            ranked: whether the set also exists by halves of the prompts; if so, `half` precedes its name.
        """
        column = metric or self.metric
        column, setting = COLUMN.get(column, column), (self.positions, self.means)
        task, intervention = on or self.operator, intervention or self.intervention
        name = self.half + neurons if ranked else neurons
        key = self.format, self.donor, self.k, task, whose or self.operator, intervention, *setting, name
        after = self.measured.sample(column, *key)
        if after is None or self.measure == "after":
            return after
        before = self.measured.sample(column, self.format, "", 0, task, task, UNMODIFIED, *setting, "none")
        assert before is not None
        lost = before.values - after.values
        return replace(after, values=lost if self.measure == "lost" else -lost)

    def value(self, sample: Sample | None, draws: bool = True) -> Value:
        """The mean over the prompts that have a value; `draws`: with the mean of each draw."""
        if sample is None:
            return self.average([])
        kept = np.flatnonzero(~np.isnan(sample.values).any(0)).tolist()
        problems, values = [sample.prompts[position][0] for position in kept], sample.values[:, kept]
        mean = resampled(values.mean(0), resampling(problems, self.resamples, self.seed))
        by_draw = {sample.stream: values.mean(1)} if draws and sample.stream else {}
        return Value(mean, problems, by_draw, bounded=self.metric not in NO_BOUNDS)

    def mean(
        self, *neurons: str, whose: str = OWN, on: str = OWN, ranked: bool = True, draws: bool = False
    ) -> Value:
        """The mean over sets, tasks and operators: each that was measured counts once.

        Args:
            whose: OWN, or OTHER_OPERATORS for the neurons of each other operator.
            on: OWN, OTHER_OPERATORS, COPYING, or a task.
        """
        several = {OWN: [self.operator], OTHER_OPERATORS: self.other_operators, COPYING: self.measured.copying}
        samples = [
            self.sample(name, operator, task, ranked=ranked)
            for task in several.get(on, [on])
            for operator in several[whose]
            for name in neurons
        ]
        return self.average([self.value(sample, draws) for sample in samples if sample])

    def average(self, values: Sequence[Value]) -> Value:
        """The mean of values; NaN without any."""
        return average(values, self.resamples)

    def strongest(self, controls: Mapping[str, str], on: str = OWN, draws: bool = True) -> Value:
        """The largest mean of several controls, with its name; `controls`: the neurons of each by name."""
        values = {name: self.mean(neurons, on=on, ranked=False, draws=draws) for name, neurons in controls.items()}
        name = strongest({name: float(value.mean[0]) for name, value in values.items()})
        return replace(values.get(name, self.average([])), control=name)

    def paired(self, first: Sample | None, second: Sample | None, control: str = "") -> tuple[Value, Value]:
        """The means of two samples over their common prompts; without any, the first is averaged over its own."""
        nothing = replace(self.average([]), control=control)
        if first is None or second is None:
            return self.value(first), nothing
        places = [
            {prompt: at for at, prompt in enumerate(sample.prompts) if not np.isnan(sample.values[:, at]).any()}
            for sample in (first, second)
        ]
        common = [prompt for prompt in places[0] if prompt in places[1]]
        if not common:
            return self.value(first), nothing
        kept = [
            self.value(Sample(sample.values[:, [at[prompt] for prompt in common]], common, sample.stream))
            for sample, at in zip((first, second), places, strict=True)
        ]
        return kept[0], replace(kept[1], control=control)
