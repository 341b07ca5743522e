"""The engine of all contrasts: means over prompts, their differences, and intervals (method, section 15).

A mean is an array (1 + R,): the value on the sample, then on R bootstrap resamples of the problems. Cells
(formats, directions, operators) are fixed, because no others could have been drawn, and a mean over cells is the
mean of their arrays. Problems are resampled: a problem has the same weight in every cell that asks it. So two
values of a prompt are paired, and formats that ask the same problem are resampled together.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from form_invariance.experiment.contrasts.noise import SOURCES, ControlDraws, Halves, Noise, half_of, total
from form_invariance.problems.task_tables import NO_OPERAND
from form_invariance.randomness import generator
from form_invariance.statistics import UNSEEN
from form_invariance.tables.columns import Column, integer, number, text

ROUNDING = 1e-6
"""A loss or difference below this (a probability, or in nats) may be rounding of float32."""
FEWEST = 5
"""A cell with fewer prompts has no interval, and does not count in means over cells."""
NO_CONTROL, SEVERAL = "none", "strongest of each cell"

COLUMNS: dict[str, Column] = {
    "control": text("the strongest control, which is subtracted; none; or strongest of each cell"),
    "cells": integer("cells that have both values"),
    "prompts": integer("prompts that have both values"),
    "first": number("mean over prompts of the first value; over cells: the mean of their means"),
    "second": number("mean of the value that is subtracted, over the same cells"),
    "difference": number("first - second"),
    "ranking_noise": number("half of the 95 % interval over train prompts, by halves of them; NaN: not measured"),
    "means_noise": number("the same over the prompts of the means, by halves of them"),
    "low": number("95 % lower limit: bootstrap over problems (or the rule of three), with the noises in limits"),
    "high": number("95 % upper limit"),
    "limits": text("sources of noise in the limits: problems, draws (of controls), rankings, means"),
    "limit_error": number("Monte Carlo standard error of the limits, the larger of the two"),
    "verdict": text("yes (the interval is above zero by two limit errors), no (below), undecided, or undefined"),
}
"""The columns of every table of contrasts, after its keys."""
RATIO = {
    "ratio": number("first / second; NaN where the lower 95 % limit of second is not above 1e-6 (rounding)"),
    "ratio_low": number("95 % lower limit of the ratio"),
    "ratio_high": number("95 % upper limit of the ratio"),
    "ratio_error": number("Monte Carlo standard error of these limits, the larger of the two"),
}

CellName = TypeVar("CellName", bound=tuple[str, ...])
"""Format or direction, and operator."""
Problem = tuple[object, ...]
"""Operator or task, and operands: the same in every cell that asks the problem."""


def problems_of(operator: str, *numbers: np.ndarray | pd.Series) -> list[Problem]:
    """P problems, from the one or two numbers (P,) that determine each answer; a pair and its reverse are one."""
    first, second = (*numbers, np.full(len(numbers[0]), NO_OPERAND))[:2]
    low, high = np.minimum(first, second), np.maximum(first, second)
    return list(zip([operator] * len(low), low.tolist(), high.tolist(), strict=True))


@lru_cache(maxsize=2**14)
def _times_drawn(problem: Problem, resamples: int, seed: int) -> np.ndarray:
    """A problem's weight in each resample, (R,)."""
    return generator(seed, "bootstrap", *problem).poisson(size=resamples).astype(np.uint8)


def resampling(problems: Sequence[Problem], resamples: int, seed: int) -> np.ndarray:
    """The weight of each prompt in the sample and in each resample, (P, 1 + R).

    A problem's weights depend on the problem alone, so every cell that asks it gives it the same. A bootstrap with
    replacement gives each problem a Poisson number with mean 1, except that their sum is fixed; means are divided
    by the sum, so it need not be. A resample without any problem of a cell is replaced by the sample.
    """
    weights = np.ones((len(problems), 1 + resamples))
    for position, problem in enumerate(problems):
        weights[position, 1:] = _times_drawn(problem, resamples, seed)
    weights[:, ~weights.any(0)] = 1
    return weights


def resampled(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Means over prompts of values (..., P): (1 + R, ...); NaN without prompts."""
    if not len(weights):
        return np.full((weights.shape[1], *values.shape[:-1]), np.nan)
    return np.moveaxis(values @ weights / weights.sum(0), -1, 0)


@dataclass(frozen=True)
class Value:
    """A mean over the prompts of one cell, or the difference or mean of several.

    Attributes:
        mean: (1 + R,); NaN where it is undefined.
        problems: the problem of each prompt; of several means, those of the mean with the fewest.
        draws: the mean by each draw of the controls.
        control: the control's name, if it was chosen as the strongest.
        bounded: the value of a prompt lies between -1 and 1.
    """

    mean: np.ndarray
    problems: Sequence[Problem] = ()
    draws: ControlDraws = field(default_factory=dict)
    control: str = ""
    bounded: bool = True

    def __sub__(self, other: "Value") -> "Value":
        """The difference; draws of a stream that is in both are subtracted, because the neurons are the same."""
        subtracted = {name: self.draws.get(name, 0) - values for name, values in other.draws.items()}
        return Value(
            self.mean - other.mean,
            min(self.problems, other.problems, key=len),
            {**self.draws, **subtracted},
            self.control or other.control,
            self.bounded and other.bounded,
        )


def average(values: Sequence[Value], resamples: int) -> Value:
    """The unweighted mean of values; NaN without any."""
    if len(values) < 2:
        return values[0] if values else Value(np.full(1 + resamples, np.nan))
    streams = set.intersection(*(set(value.draws) for value in values))
    return Value(
        np.mean([value.mean for value in values], axis=0),
        min((value.problems for value in values), key=len),
        {name: np.mean([value.draws[name] for value in values], axis=0) for name in sorted(streams)},
        bounded=all(value.bounded for value in values),
    )


def strongest(means: Mapping[str, float]) -> str:
    """The name of the largest mean, among equals the first by name; `NO_CONTROL` if no mean is defined.

    The prompts that choose the control also compare it, which favours the control.
    """
    rounded = {name: round(mean, 12) for name, mean in sorted(means.items()) if not np.isnan(mean)}
    return max(rounded, key=lambda name: rounded[name]) if rounded else NO_CONTROL


@dataclass(frozen=True)
class Pair:
    """Two means, (1 + R,) each, of one cell or over cells; NaN where one is undefined.

    Attributes:
        problems: the problems of each cell whose prompts have both values.
        control: name of the second value's control, if it was chosen as the strongest.
        draws: the difference by each draw of the controls.
        bounded: the difference of a prompt lies between -1 and 1.
        halves: both values by either half of the prompts of rankings and of means.
        noise: noise of rankings and of means, from the halves of all cells.
    """

    first: np.ndarray
    second: np.ndarray
    problems: tuple[Sequence[Problem], ...]
    control: str = ""
    draws: ControlDraws = field(default_factory=dict)
    bounded: bool = True
    halves: Halves = field(default_factory=lambda: dict.fromkeys(SOURCES, np.full((2, 2), np.nan)))
    noise: Mapping[str, Noise] = field(default_factory=dict)

    @property
    def prompts(self) -> tuple[int, ...]:
        """How many prompts have both values, in each cell."""
        return tuple(map(len, self.problems))

    @property
    def defined(self) -> bool:
        """Whether both means exist, over enough prompts."""
        return min(self.prompts, default=0) >= FEWEST and not np.isnan(self.first[0] - self.second[0])


def compare(first: Value, second: Value) -> Pair:
    """Two values of one cell."""
    both = first - second
    problems = () if np.isnan(both.mean[0]) else both.problems
    return Pair(first.mean, second.mean, (problems,), second.control, both.draws, both.bounded)


def over_cells(pairs: Iterable[Pair]) -> Pair:
    """Means over the cells that have both values."""
    pairs = list(pairs)
    defined = [pair for pair in pairs if pair.defined]
    if not defined:
        return Pair(np.full_like(pairs[0].first, np.nan), np.full_like(pairs[0].first, np.nan), (), NO_CONTROL)
    controls = {pair.control for pair in defined}
    first, second = (np.mean([getattr(pair, side) for pair in defined], axis=0) for side in ("first", "second"))
    draws: dict[str, np.ndarray] = {}
    for pair in defined:
        for stream, values in pair.draws.items():
            name = f"{stream} {len(values)}"
            draws[name] = draws.get(name, 0) + values / len(defined)
    problems = tuple(of_cell for pair in defined for of_cell in pair.problems)
    control = controls.pop() if len(controls) == 1 else SEVERAL
    halves = {source: np.mean([pair.halves[source] for pair in defined], axis=0) for source in SOURCES}
    return Pair(first, second, problems, control, draws, all(pair.bounded for pair in defined), halves)


def _unseen(problems: Sequence[Sequence[Problem]]) -> float:
    """An upper 97.5 % limit of the mean over cells of an event that was seen on no problem.

    The event may occur on `UNSEEN` problems. The limit takes those with the largest weight in the mean: problems
    that several cells ask, or of a cell with few prompts.
    """
    counted: defaultdict[Problem, float] = defaultdict(float)
    for cell in problems:
        for problem in cell:
            counted[problem] += 1 / (len(cell) * len(problems))
    heaviest = sorted(counted.values(), reverse=True)
    return float(np.clip(UNSEEN - np.arange(len(heaviest)), 0, 1) @ heaviest)


def limits(
    samples: np.ndarray, problems: Sequence[Sequence[Problem]], bounded: bool = True
) -> tuple[float, float, float]:
    """The limits of the 95 % percentile interval of a mean (1 + R,), and their Monte Carlo standard error.

    Resamples that are all equal up to rounding do not show the spread. Then the limits are those of an event that
    was not seen, and a value without bounds has no interval.

    Args:
        problems: the problems of each cell.
        bounded: the value of a prompt lies between -1 and 1.
    """
    drawn, fewest = np.sort(samples[1:]), min(map(len, problems), default=0)
    if np.isnan(samples[0]) or np.isnan(drawn).any() or len(drawn) < 2 or fewest < FEWEST:
        return float("nan"), float("nan"), float("nan")
    if drawn[-1] - drawn[0] < ROUNDING:
        half = _unseen(problems) if bounded else np.nan
        return float(samples[0] - half), float(samples[0] + half), 0.0
    rank = 0.025 * (len(drawn) - 1)
    spread = (0.025 * 0.975 * len(drawn)) ** 0.5  # standard deviation of the rank of a percentile
    ends = np.interp([rank - spread, rank, rank + spread], np.arange(len(drawn)), drawn)
    tops = np.interp([rank - spread, rank, rank + spread], np.arange(len(drawn)), -drawn[::-1])
    error = max(ends[2] - ends[0], tops[2] - tops[0]) / 2
    return float(ends[1]), float(-tops[1]), float(error)


def verdict(low: float, high: float, error: float = 0.0) -> str:
    """The verdict of a 95 % interval of a difference: yes above zero, no below it, undecided around it.

    It is also undecided if a limit is within twice its Monte Carlo error of zero, because another seed might
    decide otherwise, or within rounding, because another processor might. It is undefined if a limit is NaN.
    """
    if np.isnan(low) or np.isnan(high):
        return "undefined"
    margin = max(2 * error, ROUNDING)
    return "yes" if low > margin else "no" if high < -margin else "undecided"


def widened(value: float, low: float, high: float, half: float) -> tuple[float, float]:
    """An interval's limits with a further, independent error; `half` is half of that error's 95 % interval."""
    return float(value - np.hypot(value - low, half)), float(value + np.hypot(high - value, half))


def said(low: float, draws: ControlDraws, noises: Mapping[str, float]) -> str:
    """The column `limits` of a row; empty without limits."""
    sources = [source for source, noise in noises.items() if not np.isnan(noise)]
    return "" if np.isnan(low) else ", ".join(["problems", *["draws"] * bool(draws), *sources])


def described(pair: Pair) -> dict[str, Any]:
    """The values of `COLUMNS`."""
    difference = pair.first - pair.second + 0.0  # no minus zero
    low, high, error = limits(difference, pair.problems, pair.bounded)
    noises = {source: noise.half() if pair.defined else np.nan for source, noise in pair.noise.items()}
    low, high = widened(difference[0], low, high, np.hypot(half_of(pair.draws), total(noises.values())))
    return {
        "control": pair.control,
        "cells": len(pair.prompts) if pair.defined else 0,
        "prompts": sum(pair.prompts),
        "first": pair.first[0],
        "second": pair.second[0],
        "difference": difference[0],
        "ranking_noise": noises.get("rankings", np.nan),
        "means_noise": noises.get("means", np.nan),
        "low": low,
        "high": high,
        "limits": said(low, pair.draws, noises),
        "limit_error": error,
        "verdict": verdict(low, high, error),
    }
