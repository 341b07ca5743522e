"""Errors of a contrast that resampling prompts cannot reveal: other draws of controls, and other rankings.

Neurons that are ranked by either half of the train prompts give two values of a contrast. Half of their difference
has the variance of the value by all train prompts, if the variance is inverse to the number of prompts. One
difference says little of a variance, so the operators' are pooled (method, section 15).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

Draws = Mapping[str, np.ndarray]
"""What each draw of a control gives, (draws,), by its random stream: cells may share the drawn neurons."""


def half_of(draws: Draws) -> float:
    """Half of the 95 % prediction interval for a further draw of the controls; not a number with one draw.

    A draw may be stronger than other draws of its kind on every prompt, which resampling prompts cannot reveal. So
    the circuit must exceed what a further draw would give, not only the mean of those at hand. Streams are
    independent; their variances are pooled by Welch and Satterthwaite.
    """
    if any(len(values) < 2 or np.isnan(values).any() for values in draws.values()):
        return float("nan")
    squares = np.array([np.var(values, ddof=1) * (1 + 1 / len(values)) for values in draws.values()])
    freedom = np.array([len(values) - 1 for values in draws.values()])
    if not squares.sum() > 0:
        return 0.0
    return float(stdtrit(squares.sum() ** 2 / (squares**2 / freedom).sum(), 0.975) * squares.sum() ** 0.5)


NOT_KNOWN = np.full((2, 2), np.nan)
"""Values where neurons were not ranked by halves."""

Value = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""What is made of a first and a second value."""


@dataclass(frozen=True)
class Noise:
    """The noise of the rankings in one row of a table of contrasts.

    Attributes:
        halves: both values by either half, in rows alike, (rows, 2 values, 2 halves).
        operators: that rank neurons independently: the degrees of freedom.
        averaged: how many operators the row is a mean of, while `halves` are of one each.
    """

    halves: np.ndarray
    operators: int
    averaged: int

    def half(self, value: Value) -> float:
        """Half of the 95 % interval of a value of the row; NaN where it is not known."""
        if not self.operators:
            return float("nan")
        one, other = value(self.halves[:, 0], self.halves[:, 1]).T
        variance = np.mean((one - other) ** 2) / 4 / self.averaged
        return float(stdtrit(self.operators, 0.975) * variance**0.5)


def pooled(alike: Sequence[tuple[str, np.ndarray]], averaged: bool) -> Noise:
    """The noise of a row from rows alike.

    Args:
        alike: operator and values by halves, (2 values, 2 halves), of each row.
        averaged: the row is the mean of all operators.
    """
    known = [(operator, halves) for operator, halves in alike if not np.isnan(halves).any()]
    operators = len({operator for operator, _ in known})
    halves = np.array([halves for _, halves in known]).reshape(-1, *NOT_KNOWN.shape)
    return Noise(halves, operators, operators if averaged else 1)
