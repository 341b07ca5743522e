"""Errors of a contrast that resampling prompts cannot reveal: those of drawn controls, of rankings and of means.

Rankings by either half of the train prompts give two values of a contrast, and so do means over either half of
their prompts. Half the difference of the two values has the variance of the value by all prompts, if the variance
is inverse to the number of prompts. One difference is a poor estimate of a variance, so the differences of all
operators are pooled (method, section 15).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from form_invariance.experiment.neuron_sets import HALVES, MEANS_HALVES

ControlDraws = Mapping[str, np.ndarray]
"""The value by each draw of a control, (draws,), by random stream: cells may share the drawn neurons."""


SOURCES = {"rankings": HALVES, "means": MEANS_HALVES}
"""The sources of noise that are measured by halves of their prompts, and the prefixes of the neurons' names."""
Halves = Mapping[str, np.ndarray]
"""By source: both values of a contrast by either half, (2 values, 2 halves); NaN where not measured."""


def half_of(draws: ControlDraws) -> float:
    """Half of the 95 % prediction interval for a further draw of the controls; NaN with one draw.

    A draw may be stronger than other draws of its kind on every prompt, which resampling prompts cannot reveal. So
    the circuit must exceed a further draw, not only the mean of the existing ones. Streams are independent; their
    variances are pooled by Welch and Satterthwaite.
    """
    if any(len(values) < 2 or np.isnan(values).any() for values in draws.values()):
        return float("nan")
    squares = np.array([np.var(values, ddof=1) * (1 + 1 / len(values)) for values in draws.values()])
    freedom = np.array([len(values) - 1 for values in draws.values()])
    if not squares.sum() > 0:
        return 0.0
    return float(stdtrit(squares.sum() ** 2 / (squares**2 / freedom).sum(), 0.975) * squares.sum() ** 0.5)


def total(noises: Iterable[float]) -> float:
    """Independent noises added in quadrature; those that are NaN do not count."""
    return float(np.sqrt(np.nansum(np.square([*noises]))))


@dataclass(frozen=True)
class Noise:
    """The noise of rankings or of means in one row of a table of contrasts.

    Attributes:
        halves: both values by either half, in comparable rows of one operator each, (rows, 2 values, 2 halves).
        operators: operators of these rows; their prompts are independent, so these are the degrees of freedom.
        averaged: operators over which the row is a mean.
    """

    halves: np.ndarray
    operators: int
    averaged: int

    def half(self, combine: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.subtract) -> float:
        """Half of the 95 % interval of the combination of a row's two values; NaN if it is not known."""
        if not self.operators:
            return float("nan")
        first, second = combine(self.halves[:, 0], self.halves[:, 1]).T
        variance = np.mean((first - second) ** 2) / 4 / self.averaged
        return float(stdtrit(self.operators, 0.975) * variance**0.5)


def pooled(alike: Sequence[tuple[str, np.ndarray]], averaged: bool) -> Noise:
    """The noise of a row, from comparable rows.

    Args:
        alike: operator and values by halves, (2 values, 2 halves), of each comparable row.
        averaged: the row is the mean of all operators.
    """
    measured = [(operator, halves) for operator, halves in alike if not np.isnan(halves).any()]
    operators = len({operator for operator, _ in measured})
    halves = np.array([halves for _, halves in measured]).reshape(-1, 2, 2)
    return Noise(halves, operators, operators if averaged else 1)


def of_sources(alike: Sequence[tuple[str, Halves]], averaged: bool) -> dict[str, Noise]:
    """`pooled` for each source; `alike` has the halves by source."""
    return {
        source: pooled([(operator, halves[source]) for operator, halves in alike], averaged) for source in SOURCES
    }
