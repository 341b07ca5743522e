"""Each circuit compared with the strongest of its controls on the same prompts (method, section 7)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.experiment.contrasts import NO_CONTROL, Pair, paired, problems_of, rows, strongest
from form_invariance.experiment.intervention_kinds import INTERVENED
from form_invariance.experiment.neuron_sets import CIRCUIT, HALVES
from form_invariance.stages.interventions.table import FORMAT_MEANS, rows_of

METRICS = ("faithfulness", "accuracy", "probability")


@dataclass(frozen=True)
class Cell:
    """What the contrasts of one cell need.

    Attributes:
        n_neurons: of the circuit, by k.
        values: from `values_by_prompt`.
        draws: means of the metrics over the prompts, by intervention, k, neurons and draw.
        operands: of the eval prompts, by index.
    """

    n_neurons: pd.Series
    values: pd.DataFrame
    draws: pd.DataFrame
    operands: pd.DataFrame


def cell_of(summary: pd.DataFrame, prompts: pd.DataFrame, dataset: pd.DataFrame) -> Cell:
    """The cell of an interventions table, its table by prompt, and the dataset table with its eval prompts.

    Raises:
        UserError: the dataset is not that of the prompts.
    """
    operands = dataset[dataset["split"] == "eval"].set_index("index")[["a", "b"]]
    if missing := set(prompts["index"]) - set(operands.index):
        raise UserError(
            f"--dataset: the dataset of a cell has no eval prompt {min(missing)}, which its table by prompt has; "
            "give the dataset of the same run"
        )
    circuit = rows_of(summary[summary["neurons"] == CIRCUIT], next(iter(INTERVENED)))
    rows = prompts[(prompts["positions"] == "all") & (prompts["means"] == FORMAT_MEANS)]
    rows = rows.assign(accuracy=rows["correct"].astype(float))
    done = rows[rows["intervention"].isin(INTERVENED)]
    draws = done.groupby(["intervention", "k", "neurons", "seed"])[list(METRICS)].mean()
    values = values_by_prompt(done, rows[rows["intervention"] == "good"].set_index("index"))
    return Cell(circuit.set_index("k")["n_neurons"], values, draws.sort_index(), operands)


def values_by_prompt(done: pd.DataFrame, unmodified: pd.DataFrame) -> pd.DataFrame:
    """The metrics of every set of neurons on every prompt, as a mean over a control's draws.

    Some interventions, such as knockout, are reported as the loss: unmodified minus modified.

    Args:
        done: rows of the table by prompt, of all interventions.
        unmodified: those of the unmodified model, by prompt.

    Returns:
        Columns intervention, k, index (of the prompt), neurons, and the metrics.
    """
    values = done.groupby(["intervention", "k", "index", "neurons"])[list(METRICS)].mean().reset_index()
    loses = values["intervention"].map({name: one.lost for name, one in INTERVENED.items()}).astype(bool)
    for metric in METRICS:
        lost = values["index"].map(unmodified[metric]) - values[metric]
        values[metric] = values[metric].mask(loses, lost)
    return values


def contrast_table(cells: Mapping[tuple[str, str], Cell], resamples: int, seed: int) -> pd.DataFrame:
    """The contrasts of every cell (format, operator), of every operator and over all cells."""
    ks = next(iter(cells.values())).n_neurons.index
    parts = (
        _rows(cells, k, intervention, metric, resamples, seed)
        for k in ks
        for intervention in INTERVENED
        for metric in METRICS
    )
    return pd.DataFrame([row for part in parts for row in part])


def _rows(
    cells: Mapping[tuple[str, str], Cell], k: int, intervention: str, metric: str, resamples: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The rows of one contrast."""
    pairs = {
        (name, operator): _pair(cell, k, intervention, metric, resamples, seed, name, operator)
        for (name, operator), cell in cells.items()
    }
    size = {"k": int(k), "intervention": intervention, "metric": metric}
    for row in rows(
        pairs, "format", more=lambda some: {"n_neurons": sum(int(cells[key].n_neurons[k]) for key in some)}
    ):
        yield {**size, **row}


def _pair(cell: Cell, k: int, intervention: str, metric: str, resamples: int, seed: int, *names: str) -> Pair:
    """The circuit and its strongest control in one cell; without values where the circuit has no neurons."""
    nothing = np.empty(0)
    if not cell.n_neurons[k]:
        return paired(nothing, nothing, [], resamples, seed, NO_CONTROL)
    chosen = cell.values[(cell.values["intervention"] == intervention) & (cell.values["k"] == k)]
    by_set = chosen.pivot(index="index", columns="neurons", values=metric)
    own = cell.operands.loc[by_set.index]
    problems = problems_of(names[-1], own["a"], own["b"])
    circuit = by_set.pop(CIRCUIT).to_numpy()
    by_half = [float(by_set.pop(half + CIRCUIT).mean()) if half + CIRCUIT in by_set else np.nan for half in HALVES]
    controls = {str(name): by_set[name].dropna().to_numpy() for name in by_set}
    control = strongest(controls)
    if control == NO_CONTROL:
        return paired(circuit, np.full(len(circuit), np.nan), problems, resamples, seed, control)
    draws = {f"{names[-1]} {control}": cell.draws[metric].loc[intervention, k, control].to_numpy()}
    values = circuit, by_set[control].to_numpy()
    pair = paired(*values, problems, resamples, seed, control, draws, bounded=metric != "faithfulness")
    return replace(pair, halves=np.array([by_half, [pair.second[0]] * 2]))
