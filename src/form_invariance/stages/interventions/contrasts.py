"""Each circuit compared with the strongest of its controls on the same prompts (method, section 7)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.stages.interventions.table import FORMAT_MEANS, rows_of
from form_invariance.statistics import hierarchical_interval, paired_interval

METRICS = ("faithfulness", "accuracy", "probability")
INTERVENED = ("keep_only", "knockout")
EVERY_CELL, STRONGEST, NO_CONTROL = "all", "strongest", "none"

Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What the contrasts of one cell need.

    Attributes:
        n_neurons: of the circuit, by k.
        values: from `values_by_prompt`.
    """

    n_neurons: pd.Series
    values: pd.DataFrame


@dataclass(frozen=True)
class Contrast:
    """A circuit and its strongest control under one intervention, by one metric."""

    control: str
    circuit_values: np.ndarray  # (P,)
    control_values: np.ndarray  # (P,)

    @property
    def difference(self) -> np.ndarray:
        """Circuit minus control, (P,)."""
        return self.circuit_values - self.control_values


def cell_of(summary: pd.DataFrame, prompts: pd.DataFrame) -> Cell:
    """The cell of an interventions table and its table by prompt."""
    circuit = rows_of(summary[summary["neurons"] == "circuit"], "keep_only")
    return Cell(circuit.set_index("k")["n_neurons"], values_by_prompt(prompts))


def values_by_prompt(prompts: pd.DataFrame) -> pd.DataFrame:
    """The metrics of every set of neurons on every prompt, as a mean over a control's draws.

    Knockout is told as a loss, unmodified minus knocked out, so that more is stronger under both interventions.

    Args:
        prompts: table by prompt; the rows with all positions and the format's means are used.

    Returns:
        Columns intervention, k, index (of the prompt), neurons, and the metrics.
    """
    own = prompts[(prompts["positions"] == "all") & (prompts["means"] == FORMAT_MEANS)]
    own = own.assign(accuracy=own["correct"].astype(float))
    unmodified = own[own["intervention"] == "good"].set_index("index")
    done = own[own["intervention"].isin(INTERVENED)]
    values = done.groupby(["intervention", "k", "index", "neurons"])[list(METRICS)].mean().reset_index()
    knocked_out = values["intervention"] == "knockout"
    for metric in METRICS:
        lost = values["index"].map(unmodified[metric]) - values[metric]
        values[metric] = values[metric].mask(knocked_out, lost)
    return values


def contrast(values: pd.DataFrame) -> Contrast:
    """The circuit and its strongest control: the kind with the largest mean over the prompts.

    Choosing the control by the prompts on which it is compared favours the control. Of equals it is the first by
    name.

    Args:
        values: of one metric, a row for each prompt, a column for each set of neurons.
    """
    circuit = values["circuit"].to_numpy()
    means = values.drop(columns="circuit").mean().dropna()
    if means.empty:
        return Contrast(NO_CONTROL, circuit, np.full(len(circuit), np.nan))
    strongest = str(means.idxmax())
    return Contrast(strongest, circuit, values[strongest].to_numpy())


def contrast_table(cells: Mapping[tuple[str, ...], Cell], resamples: int, seed: int) -> pd.DataFrame:
    """The contrasts of every cell (format, operator), and those over all cells."""
    ks = next(iter(cells.values())).n_neurons.index
    rows = [
        row
        for k in ks
        for intervention in INTERVENED
        for metric in METRICS
        for row in _rows(cells, k, intervention, metric, resamples, seed)
    ]
    return pd.DataFrame(rows).assign(positions="all", means=FORMAT_MEANS)


def _rows(
    cells: Mapping[tuple[str, ...], Cell], k: int, intervention: str, metric: str, resamples: int, seed: int
) -> Iterator[Row]:
    """A row for each cell, then the row over all cells."""
    parts: list[Row] = []
    differences = []
    for (name, operator), cell in cells.items():
        found = _contrast_of(cell, k, intervention, metric)
        difference = found.difference
        bounds = paired_interval(difference, resamples, seed, "contrasts", name, operator)
        own = _row(name, operator, found.control, bounds)
        own |= {"n_neurons": int(cell.n_neurons[k]), "prompts": int((~np.isnan(difference)).sum())}
        own |= {"circuit": _mean(found.circuit_values), "control_value": _mean(found.control_values)}
        parts.append(own | {"cells": int(own["prompts"] > 0)})
        differences.append(difference)
    defined = [part for part in parts if part["cells"]]
    bounds = hierarchical_interval(differences, resamples, seed, "contrasts")
    every = _row(EVERY_CELL, EVERY_CELL, STRONGEST if defined else NO_CONTROL, bounds)
    every |= {column: sum(part[column] for part in parts) for column in ("n_neurons", "prompts", "cells")}
    for column in ("circuit", "control_value"):
        every[column] = _mean(np.array([part[column] for part in defined]))
    for part in (*parts, every):
        yield {"k": int(k), "intervention": intervention, "metric": metric, **part}


def _row(name: str, operator: str, control: str, bounds: tuple[float, float, float]) -> Row:
    difference, low, high = bounds
    given = {"format": name, "operator": operator, "control": control}
    return {**given, "difference": difference, "low": low, "high": high}


def _mean(values: np.ndarray) -> float:
    """The mean of the values that are numbers; not a number where there is none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def _contrast_of(cell: Cell, k: int, intervention: str, metric: str) -> Contrast:
    """The contrast of one cell; without values where the circuit has no neurons."""
    if not cell.n_neurons[k]:
        return Contrast(NO_CONTROL, np.empty(0), np.empty(0))
    own = cell.values[(cell.values["intervention"] == intervention) & (cell.values["k"] == k)]
    return contrast(own.pivot(index="index", columns="neurons", values=metric))
