"""What rules random smooth maps follow by chance: the null distribution of the strict labels.

Neighbouring pairs have similar activations, so a rule's hits are not independent. A map is compared with random
maps of the same smoothness. The evidence of a rule is its log likelihood ratio against the base rate, divided by
the mean evidence of equally smooth maps. The test statistic is its maximum over all rules, which corrects for
every rule tried (docs/stages.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from form_invariance.errors import UserError
from form_invariance.randomness import generator
from form_invariance.stages.heuristics.answer_sets import answer_set
from form_invariance.stages.heuristics.classes import PairClass
from form_invariance.stages.heuristics.counts import counter
from form_invariance.stages.heuristics.names import MAPS, SCALE_MAPS
from form_invariance.stages.heuristics.pairs import Grid
from form_invariance.stages.heuristics.ranking import MapRanking, rank
from form_invariance.stages.heuristics.rules import Rules, make_rules
from form_invariance.stages.heuristics.smoothness import LAGS, autocorrelation, random_maps
from form_invariance.tables.files import read_tensors

LOCAL, NEIGHBOURS = 50, 600
"""A neuron is compared with this many of `SCALE_MAPS` and of `MAPS`: those nearest to it in smoothness."""
RIDGE = 1e-3
"""Ridge penalty of the regression on smoothness, as a share of the predictors' mean sum of squares."""
FLOOR = 0.5
"""Smallest mean evidence: that of a rule whose pairs are independent."""
LARGEST = 0.999
"""Autocorrelations are clipped here, because Fisher's z diverges at 1."""
KIND = "heuristic_null"
_ROUNDING = 1e-5


def evidence(score: np.ndarray, base: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Log likelihood ratio of a score against its base rate; 0 where the score is not above the base rate."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sizes * (xlogy(score, score / base) + xlogy(1 - score, (1 - score) / (1 - base)))
    return np.where(score > base, ratio, 0.0)


@dataclass(frozen=True)
class Null:
    """Two sets of random maps of a grid: `scale` maps for the mean evidence, others to compare neurons with."""

    rules: Rules
    scale_smoothness: np.ndarray
    """Smoothness of the scale maps, from `smoothness_of`, (maps, 2 x lags)."""
    scale_evidence: np.ndarray
    """Evidence of the scale maps, (maps, rules + 1); the last column is the answer set's."""
    smoothness: np.ndarray
    """Smoothness of the other maps, (other maps, 2 x lags)."""
    largest_operand: np.ndarray
    """The other maps' largest evidence for an operand rule, in units of its local mean, (other maps,)."""
    largest_result: np.ndarray
    """The other maps' largest evidence for a result rule, in units of its local mean, (other maps,)."""


def smoothness_of(ranking: MapRanking, grid: Grid) -> np.ndarray:
    """A map's autocorrelation as Fisher's z, whose standard error does not depend on its value, (2 x lags,)."""
    return np.arctanh(np.clip(autocorrelation(ranking, grid), -LARGEST, LARGEST))


def rule_evidence(scores: np.ndarray, rules: Rules, answers: tuple[PairClass, float] | None) -> np.ndarray:
    """Evidence of every rule's score (rules,) and, last, of the neuron's answer set; (rules + 1,)."""
    several, score = answers or (None, 0.0)
    size, base = (several.size, several.size / len(several.members)) if several else (0, 1.0)
    return evidence(np.append(scores, score), np.append(rules.base, base), np.append(rules.sizes, size))


def make_null(grid: Grid, seed: int = 0, maps: tuple[int, int] | None = None) -> Null:
    """The random maps of a grid; they depend on the grid and the seed alone.

    The two sets of maps are independent. If one set served for both, each map's evidence would be divided by a
    mean that contains it. A neuron's is not in the mean, so neurons would exceed the maps too often.
    """
    maps = maps or (SCALE_MAPS, MAPS)
    rules = make_rules(grid)
    scale = _draw(grid, rules, maps[0], seed, "scale")
    smoothness, drawn = _draw(grid, rules, maps[1], seed, "compared")
    units = [row / _local_mean(*scale, target) for row, target in zip(drawn, smoothness, strict=True)]
    kinds = result_columns(rules)
    operand, result = (np.array([row[kind].max(initial=0.0) for row in units]) for kind in (~kinds, kinds))
    return Null(rules, *scale, smoothness, operand, result)


def to_arrays(null: Null) -> dict[str, np.ndarray]:
    """Named arrays for a file; `read_null` reads them back."""
    return {name: values for name, values in vars(null).items() if name != "rules"}


def read_null(path: Path, drawn_with: Mapping[str, Any], grid: Grid) -> Null:
    """The random maps of a file, which must have been drawn with these settings (`check_drawn_with`)."""
    arrays, provenance = read_tensors(path, KIND)
    check_drawn_with(path, provenance, drawn_with)
    return Null(make_rules(grid), **arrays)


def check_drawn_with(path: Path, provenance: Mapping[str, Any], drawn_with: Mapping[str, Any]) -> None:
    """Raise a UserError unless a file's maps were drawn with these settings of the grid."""
    for name, value in drawn_with.items():
        if provenance.get(name) != value:
            raise UserError(
                f"{path}: the maps are of {name} {provenance.get(name)}, not {value}; make them with the "
                f"same --{name.replace('_', '-')}"
            )


def _draw(grid: Grid, rules: Rules, count: int, seed: int, purpose: str) -> tuple[np.ndarray, np.ndarray]:
    """Smoothness (count, 2 x lags) and evidence (count, rules + 1) of new random maps."""
    smoothness = np.empty((count, 2 * len(LAGS)))
    drawn = np.empty((count, len(rules.classes) + 1), dtype=np.float32)
    hits = counter(rules.classes, grid)
    for row, values in enumerate(random_maps(grid, count, generator(seed, "smooth-maps", purpose))):
        # Drop the few ties, which only come from rounding to float32.
        ranking = MapRanking(rank(values).order)
        smoothness[row] = smoothness_of(ranking, grid)
        scores = np.maximum(*hits(ranking)) / rules.sizes
        drawn[row] = rule_evidence(scores, rules, answer_set(ranking, grid))
    return smoothness, drawn


def result_columns(rules: Rules) -> np.ndarray:
    """Which columns of the evidence are results, read from the KV map, (rules + 1,) bool."""
    return np.append(rules.result, True)


def _nearest(smoothness: np.ndarray, target: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The maps whose smoothness (maps, 2 x lags) is nearest to `target` (2 x lags,).

    Returns:
        Their positions (count,), and their smoothness minus `target`, (count, 2 x lags).
    """
    count = min(count, len(smoothness))
    nearest = np.argpartition(cdist(target[None], smoothness, "sqeuclidean")[0], count - 1)[:count]
    return nearest, smoothness[nearest] - target


def _local_mean(smoothness: np.ndarray, drawn: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Mean evidence of each rule over equally smooth maps, (rules + 1,)."""
    return np.maximum(FLOOR, drawn[_nearest(smoothness, target, LOCAL)[0]].mean(0))


def _local_largest(null: Null, largest: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Largest evidence of the maps nearest in smoothness, corrected for the remaining difference in smoothness.

    The correction is a linear regression of the logarithm on the autocorrelations of the same maps. Its prediction
    for `target` is clipped to the range of its predictions for these maps: none is as smooth as a periodic map.
    """
    nearest, more = _nearest(null.smoothness, target, NEIGHBOURS)
    logarithm = np.log(np.maximum(largest[nearest], 1e-9))
    centred = more - more.mean(0)
    squares = centred.T @ centred
    squares += (RIDGE * np.trace(squares) / len(squares) + 1e-12) * np.eye(len(squares))
    slope = np.linalg.solve(squares, centred.T @ logarithm)
    fitted = centred @ slope
    fitted_here = np.clip(-more.mean(0) @ slope, fitted.min(), fitted.max())
    return np.exp(logarithm - fitted + fitted_here)


def p_values(null: Null, scores: np.ndarray, smoothness: np.ndarray) -> np.ndarray:
    """Share of equally smooth random maps whose largest evidence is at least a rule's, (rules + 1,).

    Args:
        scores: a neuron's evidence for operand rules (K map) and result rules (KV map), (rules + 1,).
        smoothness: smoothness of the K map and of the KV map, (2, 2 x lags). If they are equal, both maps are
            compared with the same random maps.

    Returns:
        (1 + maps at least as large) / (1 + maps), corrected for all rules by the maximum.
    """
    by_result = result_columns(null.rules)
    units, drawn = np.empty(len(scores)), []
    both = (~by_result, null.largest_operand), (by_result, null.largest_result)
    for target, (kind, largest) in zip(smoothness, both, strict=True):
        units[kind] = (scores / _local_mean(null.scale_smoothness, null.scale_evidence, target))[kind]
        drawn.append(_local_largest(null, largest, target))
    ordered = np.sort(np.maximum(*drawn))
    larger = len(ordered) - np.searchsorted(ordered, units * (1 - _ROUNDING), side="left")
    return (1 + larger) / (1 + len(ordered))
