"""The tables of transfer: the rates of every condition, and the outcome for every operand pair."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.controls import NeuronSet, labels_of
from form_invariance.experiment.measurements import measurements, readout_rows
from form_invariance.experiment.readout import Readout
from form_invariance.experiment.run import Run
from form_invariance.stages.transfer.compute import Donors, run_donors, run_group
from form_invariance.stages.transfer.conditions import Condition, Group, Plans
from form_invariance.stages.transfer.names import RESIDUAL
from form_invariance.statistics import wilson
from form_invariance.tables.progress import track

Direction = tuple[str, str]
"""Donor and target format."""

RATES = ["recovered", "low", "high", "donor_answer"]


def transfer_tables(
    run: Run,
    plans: Plans,
    means: Mapping[str, Tensor],
    sets: Mapping[Direction, Mapping[str, Sequence[NeuronSet]]],
    center: bool,
) -> Iterator[tuple[Direction, pd.DataFrame, pd.DataFrame]]:
    """The transfer table of every direction (donor, target), and its table by pair (`experiment.measurements`).

    A condition without pairs has rows with 0 pairs and NaN rates. A set without neurons transfers nothing: its
    rates are NaN, and it has no rows by pair.

    Args:
        means: as in `run_group`.
        sets: sets of neurons of each direction, as in `run_group`.
    """
    donors = run_donors(run, plans)
    for (donor, target), groups in track(plans.items(), len(plans), "directions"):
        parts = [
            part
            for group in groups
            for part in _group_tables(run, group, donors, means, sets[donor, target], center)
        ]
        rates, by_pair = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
        rates = rates.assign(donor=donor, target=target, centered=center)
        rates.loc[(rates["n_neurons"] == 0) & (rates["condition"] != RESIDUAL), RATES] = np.nan
        by_pair = by_pair[(by_pair["n_neurons"] > 0) | (by_pair["neurons"] == RESIDUAL)].drop(columns="n_neurons")
        yield (donor, target), rates, by_pair.assign(donor=donor, format=target, positions="last", means="")


def _group_tables(
    run: Run,
    group: Group,
    donors: Mapping[str, Donors],
    means: Mapping[str, Tensor],
    sets: Mapping[str, Sequence[NeuronSet]],
    center: bool,
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rates and table by pair of each condition that has a set of neurons."""
    results = run_group(run, group, donors, means, sets, center)
    for condition in group.conditions:
        neuron_sets = sets[condition.neurons]
        if not neuron_sets:
            continue
        labels = labels_of(neuron_sets).drop(columns="neurons")
        labels = labels.assign(condition=condition.name, n_neurons=list(map(len, neuron_sets)))
        if condition.name in results:
            yield _tables(group, condition, results[condition.name], labels)
        else:
            nobody = pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in ("a", "b", "index")})
            by_pair = measurements(_sets(condition, labels), nobody, {"correct": np.empty(0, dtype=bool)})
            yield labels.assign(pairs=0, **dict.fromkeys(RATES, np.nan)), by_pair


def _sets(condition: Condition, labels: pd.DataFrame) -> pd.DataFrame:
    """The labels of a condition's sets of neurons, as in the table by pair."""
    return labels.drop(columns="condition").assign(
        neurons=condition.neurons, intervention=condition.circuit_condition
    )


def permuted(predicted: Tensor, tokens: Tensor, right: Tensor) -> Tensor:
    """How often an output is the answer of another pair's donor: the exact rate under permuted donors.

    Donors with the pair's right answer do not count: its own donor never has it, and it is the output if nothing
    is imposed.

    Args:
        predicted: output tokens, (sets, pairs).
        tokens: tokens that the donors' own runs predict, (pairs,).
        right: tokens of the right answers, (pairs,).

    Returns:
        For each output, the share of the other pairs' donors with that answer, (sets, pairs); NaN without donors.
    """
    values, counts = tokens.unique(return_counts=True)

    def number(answers: Tensor) -> Tensor:
        index = torch.searchsorted(values, answers.contiguous()).clamp_max(len(values) - 1)
        return torch.where(values[index] == answers, counts[index], 0)

    imposing = tokens != right
    equal = number(predicted) - (predicted == tokens).long()
    others = len(tokens) - number(right) - imposing.long()
    return torch.where(predicted == right, 0.0, equal.double()) / torch.where(others > 0, others, float("nan"))


def _tables(
    group: Group, condition: Condition, after: Readout, labels: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rates and table by pair of one condition; `labels` has a row for each set of neurons."""
    pairs = group.pairs.iloc[condition.targets]
    hits = (~after.correct if group.right_before else after.correct).cpu().numpy()  # (sets, pairs)
    tokens = torch.tensor(condition.donor_tokens, device=after.predicted.device)
    imposed = (after.predicted == tokens).cpu().numpy()
    right = torch.tensor(pairs["answer_token"].tolist(), device=tokens.device)
    low, high = wilson(hits.sum(1), np.full(len(hits), len(pairs)))
    rates = labels.assign(
        pairs=len(pairs), recovered=hits.mean(1), low=low, high=high, donor_answer=imposed.mean(1)
    )
    prompts = pairs[["a", "b"]].assign(index=condition.targets)
    by_pair = readout_rows(after, _sets(condition, labels), prompts).assign(
        donor_answer=imposed.ravel().astype(float),
        permuted_answer=permuted(after.predicted, tokens, right).cpu().numpy().ravel(),
    )
    return rates, by_pair
