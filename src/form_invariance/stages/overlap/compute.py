"""Overlap of the formats' circuits, its chance level and its ceiling (method, sections 5 and 12.7).

The Jaccard index of the formats' best k neurons of a layer is the number of neurons that are among the best in
every format, divided by the number that are among the best in any. Chance is the index of random sets of equal
sizes, drawn from all neurons or from each format's candidates, whichever is larger. Rankings are noisy, so the
index is also measured with a part of each format's prompts, and between equally many parts of one format's
prompts: its ceiling.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd

from form_invariance.experiment.groups import groups_of, joined
from form_invariance.experiment.membership import POSITIVE, TOP_K, Effects, Membership, common_layers
from form_invariance.randomness import generator
from form_invariance.stages.overlap.chance import (
    Regions,
    expected_jaccard,
    one_region,
    random_jaccards,
    regions_of,
)
from form_invariance.stages.overlap.jaccard import RanksOf, halves, jaccard, parts, pooled_jaccards, set_sizes
from form_invariance.stages.overlap.table import BEST
from form_invariance.statistics import UNSEEN, bootstrap_weights, normal_interval
from form_invariance.tables.columns import EVERY_LAYER

ROUNDING = 1e-4
"""A smaller mean change of a probability counts as 0: float32 rounds by up to 2e-6, each processor differently."""


def overlap_table(cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """Intersection, union and Jaccard of all formats and of each pair, by layer and pooled.

    The pooled interval is normal, with the bootstrap's standard error. Resampling adds noise to every ranking, so
    percentiles of the resampled Jaccards would lie below the estimate. If all resamples are equal, half of the
    interval is 3.7 / n for a union of n neurons (`UNSEEN`).

    Args:
        resamples: bootstrap resamples over train prompts, within each format independently.

    Returns:
        The overlap table by the cells' own rule of membership, without the columns membership and used.
    """
    layers, groups = common_layers(cells, ks), groups_of(list(cells))
    weights = {
        name: bootstrap_weights(cell.prompts, resamples, seed, name) / cell.prompts for name, cell in cells.items()
    }
    chance = cache(partial(_chance, width=next(iter(cells.values())).width, seed=seed))
    counted: dict[tuple[int, tuple[str, ...]], list[tuple[object, ...]]] = {}
    for layer in layers:
        positive = {name: cell.means(layer) > 0 for name, cell in cells.items()}
        ranks = {}  # (1 + R, width): by all prompts, then by every resample
        for name, cell in cells.items():
            resampled = cell.ranks(layer, partial(np.matmul, weights[name]))
            ranks[name] = np.concatenate([cell.ranks(layer)[None], resampled])
        candidates = {name: np.isin(np.arange(cell.width), cell.candidates[layer]) for name, cell in cells.items()}
        regions = {group: regions_of(np.stack([candidates[name] for name in group])) for group in groups}
        fewest = {group: min(candidates[name].sum() for name in group) for group in groups}
        for k, group in product(ks, groups):
            sets = [ranks[name] < k for name in group]
            members = np.array([mask[0].sum() for mask in sets])
            above = np.array([(mask[0] & positive[name]).sum() for mask, name in zip(sets, group, strict=True)])
            chances = chance(tuple(members.tolist()), regions[group])
            counted.setdefault((k, group), []).append((fewest[group], chances, members, above, *set_sizes(sets)))
    tables = []
    for (k, group), counts in counted.items():
        candidates_of, chances_of, *sums = (np.array(values) for values in zip(*counts, strict=True))
        table = _of_group(
            [EVERY_LAYER, *layers], chances_of, *(np.vstack([sizes.sum(0), sizes]) for sizes in sums)
        )
        table["candidates"] = [candidates_of.min(), *candidates_of]
        tables.append(table.assign(k=k, formats=joined(group)))
    return pd.concat(tables, ignore_index=True)


def _chance(sizes: tuple[int, ...], regions: Regions, width: int, seed: int) -> tuple[float, float, float]:
    """Expected Jaccard of random neurons and of random candidates, and the standard deviation of the latter."""
    if len(regions) == 1:  # the sets have the same candidates: their order must not change the last digit
        sizes = tuple(sorted(sizes))
    neurons = expected_jaccard(tuple(sorted(sizes)), one_region(len(sizes), width), seed)
    spread = float(random_jaccards(sizes, regions, seed).std()) if any(sizes) else np.nan
    return neurons, expected_jaccard(sizes, regions, seed), spread


def _of_group(
    layers: Sequence[int],
    chances: np.ndarray,
    members: np.ndarray,
    above: np.ndarray,
    common: np.ndarray,
    union: np.ndarray,
) -> pd.DataFrame:
    """The rows of one k and group of formats: all layers pooled, then each layer.

    The pooled chances are means of the layers' chances, weighted by the sizes of the layers' sets.

    Args:
        chances: `_chance` of each layer, (layers, 3).
        members: sizes of the formats' sets, (rows, formats).
        above: numbers of members with a positive effect, (rows, formats).
        common: sizes of the intersection in the sample and in every resample, (rows, 1 + R).
        union: sizes of the union, (rows, 1 + R).
    """
    weights, total = members[1:].sum(1), members[0].sum() or np.nan
    neurons, candidates = (np.append(np.nansum(chance * weights) / total, chance) for chance in chances.T[:2])
    spread = np.append(np.nansum((chances[:, 2] * weights) ** 2) ** 0.5 / total, chances[:, 2])
    jaccards = jaccard(np.stack([common, union]))
    low, high = normal_interval(jaccards[0, 0], jaccards[0, 1:], UNSEEN / max(1, union[0, 0]))
    return pd.DataFrame(
        {
            "layer": layers,
            "members": members.min(1),
            "positive": above.min(1),
            "intersection": common[:, 0],
            "union": union[:, 0],
            "jaccard": jaccards[:, 0],
            "chance": np.maximum(neurons, candidates),
            "chance_neurons": neurons,
            "chance_candidates": candidates,
            "chance_spread": spread,
            "low": [low, *np.full(len(chances), np.nan)],
            "high": [high, *np.full(len(chances), np.nan)],
        }
    )


def by_both_rules(cells: Mapping[str, Effects], ks: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """The overlap table by either rule of membership; `used` marks the rule of the circuit."""
    used = next(iter(cells.values())).membership.rule
    tables = []
    for rule in (POSITIVE, TOP_K):
        members = {name: replace(cell, membership=Membership(rule, seed)) for name, cell in cells.items()}
        tables.append(overlap_table(members, ks, resamples, seed).assign(membership=rule, used=rule == used))
    return pd.concat(tables, ignore_index=True)


def _comparisons(cells: Mapping[str, Effects], seed: int) -> Iterator[tuple[str, str, RanksOf]]:
    """Comparisons of each format with itself, and of all formats by parts of their prompts: format, kind, ranks.

    Prompts are split into as many parts as there are formats. So one format by all of its parts, and all formats
    by one part each, compare equally many rankings by equally many prompts.
    """

    def by(weights: np.ndarray, cell: Effects) -> RanksOf:
        return lambda layer: list(np.moveaxis(cell.ranks(layer, partial(np.matmul, weights)), 1, 0))

    def by_draw(cell: Effects, layer: int) -> list[np.ndarray]:
        first, *others = (cell.ranks(layer, draw=draw) for draw in range(cell.draws))
        return [np.broadcast_to(first, np.shape(others)), np.stack(others)]

    for name, cell in cells.items():
        if cell.prompts >= 2:
            yield name, "split_half", by(halves(cell.prompts, generator(seed, "split-half", name)), cell)
        if cell.draws > 1:
            yield name, "corrupt_seed", partial(by_draw, cell)
    if min(cell.prompts for cell in cells.values()) >= len(cells):
        by_part = {name: by(parts(cell.prompts, len(cells), seed, name), cell) for name, cell in cells.items()}
        yield from ((name, "parts", ranks_of) for name, ranks_of in by_part.items())
        yield (
            joined(cells),
            "across_parts",
            lambda layer: [ranks_of(layer)[index] for index, ranks_of in enumerate(by_part.values())],
        )


def reliability_table(cells: Mapping[str, Effects], ks: Sequence[int], seed: int) -> pd.DataFrame:
    """How well each format's circuit agrees with itself, and all formats' by parts of their prompts.

    `parts` of one format is the ceiling of `across_parts`: both compare equally many rankings by equally many
    prompts. Split halves are fewer rankings than the overlap of all formats compares, by fewer prompts.

    Returns:
        The reliability table: mean Jaccard over the repeats of each kind, their percentiles, and `BEST`.
    """
    layers = common_layers(cells, ks)
    rows = []
    for name, kind, ranks_of in _comparisons(cells, seed):
        repeats = pooled_jaccards(ranks_of, layers, ks)
        with warnings.catch_warnings():
            # If no repeat has a member, mean and percentiles are NaN.
            warnings.simplefilter("ignore", RuntimeWarning)
            low, high = np.nanquantile(repeats, [0.025, 0.975], axis=0)
            means = np.nanmean(repeats, axis=0)
        rows += [(k, name, kind, *values) for k, *values in zip(ks, means, low, high, strict=True)]
    table = pd.DataFrame(rows, columns=["k", "format", "kind", "jaccard", "low", "high"])
    best = [(k, name, *values) for name, cell in cells.items() for k, *values in _best(cell, layers, ks)]
    return table.merge(pd.DataFrame(best, columns=["k", "format", *BEST]), "left", ["k", "format"])


def _best(cell: Effects, layers: Sequence[int], ks: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """Each k and the columns `BEST` of one format; NaN where it has no member."""
    changes = {layer: np.where(np.abs(by) < ROUNDING, 0, by) for layer, by in cell.probability_change.items()}

    def both(layer: int) -> list[np.ndarray]:
        return [cell.ranks(layer)[None], cell.ranks(layer, lambda _: -changes[layer])[None]]

    tables = []
    for layer in layers:
        sizes = pd.DataFrame(np.abs(cell.by_prompt(layer)))  # (P, C)
        columns = {"raising": changes[layer] > 0, "largest_prompt": sizes.max() / sizes.sum()}
        tables.append(pd.DataFrame({"rank": cell.ranks(layer)[cell.candidates[layer]], **columns}))
    candidates = pd.concat(tables)
    for k, by_probability in zip(ks, pooled_jaccards(both, layers, ks)[0], strict=True):
        best = candidates[candidates["rank"] < k]
        yield k, by_probability, best["raising"].mean(), best["largest_prompt"].median()
