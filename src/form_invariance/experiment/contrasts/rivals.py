"""Compare a value with the strongest of several rivals, without choosing the rival by the same prompts.

An assignment gives each operator one of its rivals; its contrast is the mean over operators of own − rival. The
own value exceeds the strongest rivals if it exceeds those of every assignment. So *yes* needs the intervals of all
assignments above zero: an intersection of tests, each with an error of 2.5 %. *No* needs the least contrast below
zero, by an upper limit that holds for all assignments at once: the 97.5 % quantile, over resamples, of the largest
studentized error. Each resample draws the noises of rankings and of means anew for each set, because noise alone
may make a rival the strongest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.special import stdtrit
from scipy.stats import norm

from form_invariance.experiment.contrasts.engine import (
    NO_CONTROL,
    ROUNDING,
    SEVERAL,
    CellName,
    Pair,
    described,
    limits,
    over_cells,
    verdict,
    widened,
)
from form_invariance.experiment.contrasts.noise import Halves, Noise, of_sources, total
from form_invariance.experiment.contrasts.rows import groups_of
from form_invariance.randomness import generator
from form_invariance.tables.columns import ALL

ASSIGNMENTS = 4096
"""The most assignments; beyond it, only the strongest rivals of each operator are kept."""
RivalPairs = Mapping[str, Pair]
"""Own value and rival, by the rival's name."""


def _assigned(cells: Sequence[tuple[str, RivalPairs]]) -> Iterator[tuple[dict[str, str], Pair]]:
    """Every assignment of a rival to each operator, and its means over the cells (operator, pairs)."""
    defined = [(operator, pairs) for operator, pairs in cells if pairs and all(p.defined for p in pairs.values())]
    by_operator: dict[str, list[RivalPairs]] = {}
    for operator, pairs in defined:
        by_operator.setdefault(operator, []).append(pairs)
    most = int(ASSIGNMENTS ** (1 / max(1, len(by_operator))))
    rivals = []
    for of_cells in by_operator.values():
        strengths = {name: np.mean([pairs[name].second[0] for pairs in of_cells]) for name in of_cells[0]}
        rivals.append(sorted(strengths, key=strengths.__getitem__, reverse=True)[:most])
    for rival_names in product(*rivals) if defined else ():
        assignment = dict(zip(by_operator, rival_names, strict=True))
        yield assignment, over_cells([pairs[assignment[operator]] for operator, pairs in defined])


def _noises(
    assignments: Sequence[Mapping[str, str]], noise: Mapping[str, Noise], draws: int
) -> tuple[float, np.ndarray]:
    """The noises of rankings and means in the contrast of an assignment.

    An operator's own set has the same noise in all assignments, and so has each rival.

    Returns:
        The standard deviation, the same for all assignments, and the draws, (assignments, draws).
    """
    variances = np.zeros(2)  # of the own value, and of a rival
    for source in noise.values():
        if source.operators:
            # Widen the normal draws to Student's distribution, whose degrees of freedom are the operators.
            width = stdtrit(source.operators, 0.975) / norm.ppf(0.975)
            variances += (((source.halves[..., 0] - source.halves[..., 1]) / 2 * width) ** 2).mean(0)
    own_deviation, rival_deviation = variances**0.5
    rivals = dict.fromkeys(pair for assignment in assignments for pair in assignment.items())
    of_rival = {pair: rival_deviation * generator(0, "rival", *pair).normal(size=draws) for pair in rivals}
    of_own = {
        operator: own_deviation * generator(0, "rival", operator).normal(size=draws) for operator in assignments[0]
    }
    drawn = [
        np.mean([of_own[pair[0]] - of_rival[pair] for pair in assignment.items()], axis=0)
        for assignment in assignments
    ]
    return float(np.hypot(own_deviation, rival_deviation) / len(assignments[0]) ** 0.5), np.array(drawn)


def _row(cells: Sequence[tuple[str, RivalPairs]], noise: Mapping[str, Noise]) -> dict[str, Any]:
    """The values of `COLUMNS` over some cells; `noise` as in `Pair`."""
    assigned = list(_assigned(cells))
    if not assigned:
        nothing = np.full(1, np.nan)
        return described(Pair(nothing, nothing, (), NO_CONTROL))
    assignments, pairs = zip(*assigned, strict=True)
    differences = np.array([pair.first - pair.second for pair in pairs]) + 0.0
    bounds = [
        limits(difference, pair.problems, pair.bounded)
        for difference, pair in zip(differences, pairs, strict=True)
    ]
    half = total(of.half() for of in noise.values())
    lows = [
        widened(difference[0], low, high, half)[0]
        for difference, (low, high, _) in zip(differences, bounds, strict=True)
    ]
    # Where all resamples are equal up to rounding, the limits are those of an event that was not seen.
    unseen = np.array([high - low for low, high, _ in bounds]) / 2 / norm.ppf(0.975)
    same = np.ptp(differences[:, 1:], axis=1) < ROUNDING
    deviation, noises = _noises(assignments, noise, differences.shape[1] - 1)
    errors = np.hypot(np.where(same, unseen, differences[:, 1:].std(axis=1, ddof=1)), deviation)
    resampled = differences[:, 1:] + noises
    studentized = (differences[:, :1] - resampled) / np.where(errors > 0, errors, 1)[:, None]
    quantile = max(np.quantile(studentized.max(axis=0), 0.975), norm.ppf(0.975))
    highs = differences[:, 0] + quantile * errors
    least, low, high = int(differences[:, 0].argmin()), float(min(lows)), float(min(highs))
    error = bounds[int(np.argmin(lows))][2]
    rivals = list(assignments[least].values())
    return described(replace(pairs[least], noise=noise)) | {
        "control": rivals[0] if len(rivals) == 1 else SEVERAL,
        "low": low,
        "high": high,
        "limit_error": error,
        "verdict": verdict(low, high, error),
    }


def rival_rows(cells: Mapping[CellName, RivalPairs]) -> Iterator[dict[str, Any]]:
    """A row for each cell, for each operator over its cells, and over all cells, as in `rows.rows`."""
    groups = groups_of(cells)
    halves: dict[bool, list[tuple[str, Halves]]] = {True: [], False: []}
    for (name, operator), members in groups.items():
        if operator != ALL:
            for _, pair in _assigned([(operator, cells[cell]) for cell in members]):
                halves[name == ALL].append((operator, pair.halves))
    for (name, operator), members in groups.items():
        noise = of_sources(halves[name == ALL], averaged=operator == ALL)
        yield {"format": name, "operator": operator, **_row([(cell[1], cells[cell]) for cell in members], noise)}
