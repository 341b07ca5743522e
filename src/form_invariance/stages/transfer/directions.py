"""The transfer experiment of one operator: all directions planned, run, and put into tables."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.decoder import Decoder
from form_invariance.problems.prompts import PromptTokenizer
from form_invariance.stages.interventions.compute import circuit_members
from form_invariance.stages.interventions.controls import draw_controls
from form_invariance.stages.transfer.compute import (
    Condition,
    Donors,
    Group,
    Transferred,
    pair_censuses,
    plan_direction,
    run_group,
)
from form_invariance.statistics import wilson

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


def circuit_masks(
    model: Decoder, circuit: pd.DataFrame, ks: Sequence[int], first: int, seed: int, operator: str
) -> dict[bool, Tensor]:
    """The circuit of every k (False) and as many random neurons per layer (True), (ks, late layers, m).

    Where too few neurons lie outside the circuit, the random mask is empty and its rows are left out.
    """
    layers, width = model.config.n_layers, model.config.d_mlp
    members = [circuit_members(circuit, k, first, layers, width) for k in ks]
    random = [draw_controls(own, None, seed, "transfer", operator, k) for k, own in zip(ks, members, strict=True)]
    empty = np.zeros((layers - first, width), dtype=bool)
    return {
        False: torch.from_numpy(np.stack(members)).to(model.device),
        True: torch.from_numpy(np.stack([empty if r is None else r for r in random])).to(model.device),
    }


def run_donors(model: Decoder, tokenizer: PromptTokenizer, plans: Plans, first: int) -> dict[str, Donors]:
    """Run every donor prompt of every direction, each once."""
    prompts: dict[str, list[str]] = {}
    for groups in plans.values():
        for group in groups:
            for condition in group.conditions:
                prompts.setdefault(condition.format, []).extend(condition.donors)
    return {name: Donors(model, tokenizer, donors, first) for name, donors in prompts.items() if donors}


def _rows(
    condition: Condition, result: Transferred, sizes: Tensor, variants: pd.DataFrame, donor_tokens: Tensor
) -> pd.DataFrame:
    harm = condition.name.startswith("harm")
    pairs = len(condition.targets)
    hits = (~result.after.correct if harm else result.after.correct).sum(-1).cpu().numpy()
    low, high = wilson(hits, np.full(len(hits), pairs))
    return variants.assign(
        condition=condition.name,
        pairs=pairs,
        n_neurons=sizes.cpu().numpy(),
        recovered=hits / pairs,
        low=low,
        high=high,
        donor_answer=(result.after.predicted == donor_tokens).double().mean(-1).cpu().numpy(),
        normalized_logit_before=result.before.normalized_logit.mean().item(),
        normalized_logit_after=result.after.normalized_logit.mean(-1).cpu().numpy(),
    )


def direction_table(
    model: Decoder,
    tokenizer: PromptTokenizer,
    groups: Sequence[Group],
    donors: dict[str, Donors],
    shares: dict[bool, Tensor],
    variants: pd.DataFrame,
    first: int,
    center: bool,
) -> pd.DataFrame:
    """Run one direction; the transfer table without its columns donor and target.

    A condition without pairs has rows all the same, with 0 pairs and rates that are not a number.

    Args:
        shares: as in `run_group`.
        variants: what tells the variants apart, such as their k; a row each.
    """
    sizes = {kind: (share > 0).sum((1, 2)) for kind, share in shares.items()}
    tables = []
    for group in groups:
        results = run_group(model, tokenizer, group, donors, shares, first, center)
        for condition in group.conditions:
            if condition.name not in results:
                tables.append(_empty_rows(condition, sizes[False], variants))
                continue
            tokens = torch.from_numpy(tokenizer.number_tokens(condition.donor_answers)).to(model.device)
            rows = _rows(condition, results[condition.name], sizes[condition.random], variants, tokens)
            drawn = (sizes[condition.random] == sizes[False]).cpu().numpy()
            tables.append(rows[drawn])
    return pd.concat(tables, ignore_index=True).assign(centered=center)


def _empty_rows(condition: Condition, sizes: Tensor, variants: pd.DataFrame) -> pd.DataFrame:
    rates = ("recovered", "low", "high", "donor_answer", "normalized_logit_before", "normalized_logit_after")
    return variants.assign(
        condition=condition.name, pairs=0, n_neurons=sizes.cpu().numpy(), **dict.fromkeys(rates, np.nan)
    )
