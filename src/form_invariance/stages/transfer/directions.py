"""The transfer experiment of one operator: all directions planned, run, and put into tables."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.stages.circuit.compute import circuit_members
from form_invariance.stages.circuit.controls import draw_controls
from form_invariance.stages.run import Run
from form_invariance.stages.transfer.compute import (
    Condition,
    Donors,
    Group,
    Shares,
    Transferred,
    pair_censuses,
    plan_direction,
    run_group,
)
from form_invariance.statistics import wilson
from form_invariance.tables.progress import track

Plans = dict[tuple[str, str], list[Group]]


def plan(censuses: dict[str, pd.DataFrame], limit: int, seed: int, operator: str) -> Plans:
    """The groups of every ordered pair of formats (donor, target)."""
    return {
        (donor, target): plan_direction(
            pair_censuses(censuses[donor], censuses[target]), donor, target, limit, seed, operator
        )
        for donor in censuses
        for target in censuses
        if donor != target
    }


def only(plans: Plans, condition: str) -> Plans:
    """The plans with one condition alone, in the groups that have it."""
    return {
        direction: [
            Group(group.prompts, group.answers, [one])
            for group in groups
            for one in group.conditions
            if one.name == condition
        ]
        for direction, groups in plans.items()
    }


def circuit_shares(run: Run, circuit: pd.DataFrame, ks: Sequence[int], seed: int, operator: str) -> Shares:
    """The circuit of every k moves as a whole, and as many random neurons per layer.

    Where too few neurons lie outside the circuit, no random ones move, and these rows are left out of the table.
    """
    members = [circuit_members(circuit, k, run.late, run.width) for k in ks]
    random = [draw_controls(own, None, seed, "transfer", operator, k) for k, own in zip(ks, members, strict=True)]
    drawn = [np.zeros_like(members[0]) if one is None else one for one in random]
    both = (torch.from_numpy(np.stack(masks)).to(run.model.device) for masks in (members, drawn))
    return Shares(pd.DataFrame({"k": ks}), *both)


def run_donors(run: Run, plans: Plans) -> dict[str, Donors]:
    """Run every donor prompt of every direction, each once."""
    prompts: dict[str, list[str]] = {}
    for groups in plans.values():
        for group in groups:
            for condition in group.conditions:
                prompts.setdefault(condition.format, []).extend(condition.donors)
    return {name: Donors(run, donors) for name, donors in prompts.items() if donors}


def transfer_tables(
    run: Run, plans: Plans, shares: Shares, center: bool
) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    """The transfer table of every direction (donor, target)."""
    donors = run_donors(run, plans)
    for (donor, target), groups in track(plans.items(), len(plans), "directions"):
        table = direction_table(run, groups, donors, shares, center)
        yield (donor, target), table.assign(donor=donor, target=target)


def direction_table(
    run: Run, groups: Sequence[Group], donors: dict[str, Donors], shares: Shares, center: bool
) -> pd.DataFrame:
    """Run one direction; the transfer table without its columns donor and target.

    A condition without pairs has rows too, with 0 pairs and rates that are not a number.
    """
    wanted = _moving(shares.circuit)
    tables = []
    for group in groups:
        results = run_group(run, group, donors, shares, center)
        for condition in group.conditions:
            if condition.name not in results:
                tables.append(_empty_rows(condition, wanted, shares.settings))
                continue
            sizes = _moving(shares.of(condition))
            tokens = run.answer_tokens(condition.donor_answers)
            rows = _rows(condition, results[condition.name], sizes, shares.settings, tokens)
            tables.append(rows[sizes == wanted])
    return pd.concat(tables, ignore_index=True).assign(centered=center)


def _moving(shares: Tensor) -> np.ndarray:
    """How many neurons move in each setting, (settings,)."""
    return (shares > 0).sum((1, 2)).cpu().numpy()


def _rows(
    condition: Condition, result: Transferred, sizes: np.ndarray, settings: pd.DataFrame, donor_tokens: Tensor
) -> pd.DataFrame:
    harm = condition.name.startswith("harm")
    pairs = len(condition.targets)
    hits = (~result.after.correct if harm else result.after.correct).sum(-1).cpu().numpy()
    low, high = wilson(hits, np.full(len(hits), pairs))
    return settings.assign(
        condition=condition.name,
        pairs=pairs,
        n_neurons=sizes,
        recovered=hits / pairs,
        low=low,
        high=high,
        donor_answer=(result.after.predicted == donor_tokens).double().mean(-1).cpu().numpy(),
        normalized_logit_before=result.before.normalized_logit.mean().item(),
        normalized_logit_after=result.after.normalized_logit.mean(-1).cpu().numpy(),
    )


def _empty_rows(condition: Condition, sizes: np.ndarray, settings: pd.DataFrame) -> pd.DataFrame:
    rates = ("recovered", "low", "high", "donor_answer", "normalized_logit_before", "normalized_logit_after")
    return settings.assign(condition=condition.name, pairs=0, n_neurons=sizes, **dict.fromkeys(rates, np.nan))
