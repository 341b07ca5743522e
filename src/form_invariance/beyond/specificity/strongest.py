"""The strongest of several circuits, chosen on other problems than those on which it is compared."""

from collections.abc import Mapping, Sequence

import numpy as np

from form_invariance.experiment.contrasts import NO_CONTROL, Problem, resampled, strongest

EACH_HALF = "strongest by each half"
"""The name where the halves of the problems choose different circuits."""


def strongest_by_half(
    values: Mapping[str, np.ndarray], problems: Sequence[Problem], weights: np.ndarray, sign: int
) -> tuple[np.ndarray, str]:
    """The mean of the largest of several values, (1 + R,), and its name: each half chooses it for the other half.

    On the prompts that choose it, the largest of equals is large by chance. All prompts of a problem are in the
    same half.

    Args:
        values: by name, (P,).
        weights: of the prompts in the sample and in each resample, (P, 1 + R).
        sign: -1 if the smallest is wanted.
    """
    place = {problem: place for place, problem in enumerate(dict.fromkeys(problems))}
    odd = np.array([place[problem] % 2 == 1 for problem in problems], dtype=bool)
    by_odd, by_even = (
        strongest({name: some[half] for name, some in values.items()}, sign) for half in (odd, ~odd)
    )
    if NO_CONTROL in (by_odd, by_even):
        return np.full(weights.shape[1], np.nan), NO_CONTROL
    chosen = np.where(odd, values[by_even], values[by_odd])
    return resampled(chosen, weights), by_odd if by_odd == by_even else EACH_HALF
