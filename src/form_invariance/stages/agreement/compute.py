"""Whether a neuron carries the same heuristic families in every format (paper, section 4.5; method, section 9).

A neuron has the families of its labels. We count the shared neurons whose formats have a family in common, or
equal sets of families. The null hypothesis permutes the sets of families over the neurons of each format. The
module `correlation` compares the activations themselves.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from form_invariance.randomness import generator
from form_invariance.stages.heuristics.names import FAMILIES, MODES, SHARED

_ROWS = 2**21

STATISTICS = ("common", "exact", "pair_jaccard", "three_way_jaccard")


def encode(labels: np.ndarray) -> np.ndarray:
    """Family sets (..., families) bool as bit sets (...,) uint32."""
    return (labels << np.arange(labels.shape[-1])).sum(-1, dtype=np.uint32)


def _jaccard(sets: np.ndarray) -> np.ndarray:
    """|intersection| / |union| of bit sets (sets, ...), elementwise; NaN where all are empty."""
    with np.errstate(invalid="ignore"):
        return np.bitwise_count(np.bitwise_and.reduce(sets)) / np.bitwise_count(np.bitwise_or.reduce(sets))


def _mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of the defined values."""
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.where(defined, values, 0.0).sum(-1) / defined.sum(-1)


def statistics(sets: np.ndarray) -> dict[str, np.ndarray]:
    """Agreement of the formats' bit sets (formats, ..., neurons), each a mean over the neurons (...,).

    common: share of the neurons with a family in all formats; exact: share with equal sets that are not empty;
    pair_jaccard: mean over pairs of formats; three_way_jaccard: of all formats at once. The Jaccard of empty
    sets is undefined and left out.
    """
    everywhere = np.bitwise_and.reduce(sets)
    pairs = [_jaccard(np.stack(pair)) for pair in combinations(sets, 2)]
    return {
        "common": (everywhere != 0).mean(-1),
        "exact": ((sets == sets[:1]).all(0) & (sets[0] != 0)).mean(-1),
        "pair_jaccard": _mean(np.concatenate(pairs, axis=-1)),
        "three_way_jaccard": _mean(_jaccard(sets)),
    }


def permutation_test(
    sets: np.ndarray, layers: np.ndarray | None, permutations: int, seed: int, name: str
) -> pd.DataFrame:
    """Agreement against family sets permuted over the neurons, within each format independently.

    Args:
        sets: bit sets, (formats, neurons).
        layers: (neurons,); sets are permuted only within a layer. None: over all neurons.

    Returns:
        A row for each statistic: statistic, observed, null_mean, null_max, p = (1 + #null >= observed) / (1 + n).
    """
    count = sets.shape[1]
    if count == 0:
        missing = dict.fromkeys(("observed", "null_mean", "null_max", "p"), np.nan)
        return pd.DataFrame({"statistic": STATISTICS, **missing})
    rng = generator(seed, "agreement", name)
    observed = statistics(sets)
    step = max(1, min(permutations, _ROWS // count))
    nulls: dict[str, list[np.ndarray]] = {statistic: [] for statistic in STATISTICS}
    for start in range(0, permutations, step):
        rows = min(step, permutations - start)
        shuffled = np.stack([_shuffle(format_sets, layers, rows, rng) for format_sets in sets])
        for statistic, values in statistics(shuffled).items():
            nulls[statistic].append(values)
    rows_out = []
    for statistic in STATISTICS:
        null, value = np.concatenate(nulls[statistic]), float(observed[statistic])
        # Sums of the same terms in another order differ in the last digits.
        p = (1 + int((null >= value - 1e-12).sum())) / (1 + permutations)
        rows_out.append((statistic, value, null.mean(), null.max(), p if np.isfinite(value) else np.nan))
    return pd.DataFrame(rows_out, columns=["statistic", "observed", "null_mean", "null_max", "p"])


def _shuffle(sets: np.ndarray, layers: np.ndarray | None, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Independent permutations of sets (neurons,), over all neurons or within each layer, (rows, neurons)."""
    result = np.tile(sets, (rows, 1))
    if layers is None:
        return rng.permuted(result, axis=1)
    for layer in np.unique(layers):
        places = np.flatnonzero(layers == layer)
        result[:, places] = rng.permuted(result[:, places], axis=1)
    return result


def agreement_table(
    labels: Mapping[str, np.ndarray], layers: np.ndarray, permutations: int, seed: int, name: str
) -> pd.DataFrame:
    """All agreement statistics of one operator.

    Args:
        labels: family labels by format, (neurons, families) bool, of the shared neurons.
        layers: the neurons' layers, (neurons,).
        name: the operator's name, for the seeded permutations.

    Returns:
        Columns over (shared: all shared neurons; any: labelled in at least one format; all: labelled in every
        format, the paper's), scope (all, layer: where the null permutes), neurons, and those of
        `permutation_test`. Without any neuron the statistics are NaN.
    """
    sets = np.stack([encode(format_labels) for format_labels in labels.values()])
    times = (sets != 0).sum(0)
    tables = []
    for over, included in {"shared": times >= 0, "any": times > 0, "all": times == len(labels)}.items():
        for scope, where in (("all", None), ("layer", layers[included])):
            table = permutation_test(sets[:, included], where, permutations, seed, f"{name}/{over}/{scope}")
            tables.append(table.assign(over=over, scope=scope, neurons=int(included.sum())))
    return pd.concat(tables, ignore_index=True)


def operator_tables(
    tables: Mapping[str, pd.DataFrame],
    neurons: pd.DataFrame,
    permutations: int,
    seed: int,
    name: str,
    modes: Sequence[str] = MODES,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Agreement of one operator in each mode: of every kind of neurons, and of shuffled activations.

    Args:
        tables: heuristics tables by format.
        neurons: the neurons that were labelled: columns neurons (their kind), layer, neuron.
        modes: the modes in which they were labelled.

    Returns:
        The agreement table, and the table of how many neurons are labelled in 0, 1, 2, ... formats.
    """
    kinds = {SHARED: neurons.iloc[:0], **dict([*neurons.groupby("neurons", sort=False)])}
    agreements, labelled = [], []
    for mode in modes:
        # The baselines have no shuffled activations.
        for kind, activations in [(SHARED, "shuffled"), *((kind, "observed") for kind in kinds)]:
            criteria = {"mode": mode, "neurons": kind, "activations": activations}
            labels = {format_name: _labels(table, kinds[kind], criteria) for format_name, table in tables.items()}
            layers = kinds[kind]["layer"].to_numpy()
            key = f"{name}/{mode}/{kind}/{activations}"
            which = {"mode": mode, "kind": kind, "activations": activations}
            agreements.append(agreement_table(labels, layers, permutations, seed, key).assign(**which))
            times = np.sum([format_labels.any(1) for format_labels in labels.values()], axis=0)
            counts = np.bincount(times.astype(np.int64), minlength=len(labels) + 1)
            labelled.append(pd.DataFrame({"formats": range(len(labels) + 1), "neurons": counts}).assign(**which))
    return pd.concat(agreements, ignore_index=True), pd.concat(labelled, ignore_index=True)


def _labels(table: pd.DataFrame, neurons: pd.DataFrame, criteria: Mapping[str, str]) -> np.ndarray:
    """Family labels of some neurons in one format, (neurons, families) bool."""
    position_of = pd.Series(np.arange(len(neurons)), index=pd.MultiIndex.from_frame(neurons[["layer", "neuron"]]))
    families = {family: number for number, family in enumerate(dict.fromkeys(label for _, label in FAMILIES))}
    matching = (table[list(criteria)] == pd.Series(criteria)).all(axis=1) & table["label"]
    rows = table[matching]
    result = np.zeros((len(neurons), len(families)), dtype=bool)
    positions = position_of.loc[pd.MultiIndex.from_frame(rows[["layer", "neuron"]])].to_numpy()
    result[positions, rows["family"].map(families).to_numpy(dtype=np.int64)] = True
    return result
