"""Shares of outputs by layer of the exchange, and the layers where formats meet (docs/method.md)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.beyond.residual_exchange.table import FORMAT, MEET, OTHERS, OWN, SERVED
from form_invariance.experiment.contrasts.engine import (
    Pair,
    Problem,
    described,
    problems_of,
    resampled,
    resampling,
)
from form_invariance.experiment.contrasts.questions import SERVES
from form_invariance.experiment.contrasts.rows import rows
from form_invariance.statistics import resampled_interval
from form_invariance.tables.columns import ALL

ARRIVED = 0.5
"""A state has arrived where it decides the answer in at least this share of the prompts."""
ONE_LAYER = 1.5
"""Formats meet in one layer if the first and the last layer where two of them meet are less than this apart."""

MEASURES = ("donor_answer", "permuted_answer", "own_answer")


class Exchanged:
    """The outputs with donors of one kind and format in one cell, as shares by measure, (1 + R, layers)."""

    def __init__(self, operator: str, table: pd.DataFrame, resamples: int, seed: int) -> None:
        """Resample the problems; `table` has a row for each target and layer, each target's layers in order."""
        layers = table["layer"].max() + 1
        first = table.iloc[::layers]
        self.problems: list[Problem] = problems_of(operator, first["a"], first["b"])
        weights = resampling(self.problems, resamples, seed)
        values = {name: table[name].to_numpy(float).reshape(-1, layers).T for name in MEASURES}
        self.shares = {name: resampled(by_layer, weights) for name, by_layer in values.items()}
        self.layers = layers


ExchangeKey = tuple[str, str, str, str]
"""Operator, target's format, kind of donor and donor's format."""


def exchanges(
    tables: Mapping[tuple[str, str], pd.DataFrame], resamples: int, seed: int
) -> dict[ExchangeKey, Exchanged]:
    """The shares of every cell (format, operator) by kind and format of the donors."""
    return {
        (operator, target, str(kind), str(donor)): Exchanged(operator, table, resamples, seed)
        for (target, operator), cell in tables.items()
        for (kind, donor), table in cell.groupby(["donor", "donor_format"], sort=False)
    }


def shares(exchanged: Mapping[ExchangeKey, Exchanged]) -> pd.DataFrame:
    """The table of shares: means over the targets' formats, and over the formats of other formats' donors."""
    groups: dict[tuple[str, str], list[Exchanged]] = {}
    for (operator, target, kind, donor), cell in exchanged.items():
        name = (OWN if donor == target else OTHERS) if kind == FORMAT else kind
        groups.setdefault((operator, name), []).append(cell)
    parts = []
    for (operator, name), cells in groups.items():
        means = {measure: np.mean([cell.shares[measure] for cell in cells], 0) for measure in MEASURES}
        _, low, high = zip(*map(resampled_interval, means["donor_answer"].T), strict=True)
        columns = {"layer": range(len(low)), "low": low, "high": high}
        columns |= {measure: array[0] for measure, array in means.items()}
        prompts = sum(len(cell.problems) for cell in cells)
        parts.append(pd.DataFrame(columns).assign(operator=operator, donor=name, prompts=prompts))
    return pd.concat(parts, ignore_index=True)


def first_layer(reached: np.ndarray) -> np.ndarray:
    """The first layer where `reached` is true, (1 + R,), or the number of layers if it never is.

    Args:
        reached: (1 + R, layers). The last layer does not count.
    """
    last = reached.shape[1] - 1
    return np.where(reached[:, :last].any(1), reached[:, :last].argmax(1), last + 1)


def arrival(own_donors: Exchanged) -> np.ndarray:
    """The layer where the own format's donors decide the answer, (1 + R,), as in `first_layer`."""
    return first_layer(own_donors.shares["donor_answer"] >= ARRIVED)


def arrives(exchanged: Mapping[ExchangeKey, Exchanged]) -> int:
    """The layer where the own formats' donors decide the answer in the mean over formats, as in `first_layer`."""
    own_cells = [cells[0] for _, target, donor, *cells in of_formats(exchanged) if target == donor]
    return int(first_layer(np.mean([cell.shares["donor_answer"] for cell in own_cells], 0) >= ARRIVED)[0])


def meeting(own_donors: Exchanged, other_donors: Exchanged) -> np.ndarray:
    """The layer where another format's donors decide nearly as often as the own format's, as in `first_layer`."""
    ours, theirs = (cell.shares["donor_answer"] for cell in (own_donors, other_donors))
    return first_layer((ours >= ARRIVED) & (theirs >= SERVES * ours))


def leaving(donors: Exchanged) -> np.ndarray:
    """The last layer in which the target's answer survives, (1 + R,); -1 where it never does."""
    kept = donors.shares["own_answer"][:, :-1] >= SERVES
    return np.where(kept.any(1), kept.shape[1] - 1 - kept[:, ::-1].argmax(1), -1)


def of_formats(exchanged: Mapping[ExchangeKey, Exchanged]) -> Iterator[tuple[str, str, str, Exchanged, Exchanged]]:
    """Operator, target's and donor's format, the own format's donors, and the donors of each format."""
    for (operator, target, kind, donor), of_donor in exchanged.items():
        of_target = exchanged.get((operator, target, FORMAT, target))
        if kind == FORMAT and of_target:
            yield operator, target, donor, of_target, of_donor


def layers(exchanged: Mapping[ExchangeKey, Exchanged]) -> pd.DataFrame:
    """The table of layers."""
    table = []
    for operator, target, donor, of_target, of_donor in of_formats(exchanged):
        for quantity, values in (("meets", meeting(of_target, of_donor)), ("leaves", leaving(of_donor))):
            never = values[0] in (-1, of_donor.layers)
            value, low, high = resampled_interval(np.full(len(values), np.nan) if never else values)
            names = {"operator": operator, "donor_format": donor, "target_format": target, "quantity": quantity}
            table.append({**names, "value": value, "low": low, "high": high})
    return pd.DataFrame(table)


def contrasts(exchanged: Mapping[ExchangeKey, Exchanged]) -> pd.DataFrame:
    """The table of contrasts: do formats meet in one layer, and does another format's state do as well?"""
    others = [pair for pair in of_formats(exchanged) if pair[1] != pair[2]]
    served: dict[tuple[str, str], Pair] = {}
    for operator, target in dict.fromkeys(pair[:2] for pair in others):
        of_donors = [pair[3:] for pair in others if pair[:2] == (operator, target)]
        own_donors = of_donors[0][0]
        # Where the state never arrives there is nothing to compare.
        at = arrival(own_donors)
        layer = np.arange(len(at)), np.minimum(at, own_donors.layers - 1)
        ours, *theirs = (
            cell.shares["donor_answer"][layer] for cell in (own_donors, *(other for _, other in of_donors))
        )
        first = np.where(at == own_donors.layers, np.nan, np.mean(theirs, 0))
        served[target, operator] = Pair(first, SERVES * ours, (own_donors.problems,))
    table: list[dict[str, Any]] = [{"question": SERVED, **row} for row in rows(served)]
    for operator in [*dict.fromkeys(pair[0] for pair in others), ALL]:
        pairs = [pair for pair in others if operator in (pair[0], ALL)]
        met = np.stack([meeting(own_donors, other) for *_, own_donors, other in pairs])
        never = met[:, 0].min() == pairs[0][3].layers
        spread = np.full(met.shape[1], np.nan) if never else met.max(0) - met.min(0)
        limit = np.full(met.shape[1], ONE_LAYER)
        pair = Pair(limit, spread, tuple(other.problems for *_, other in pairs))
        table.append({"question": MEET, "format": ALL, "operator": operator, **described(pair)})
    return pd.DataFrame(table)
