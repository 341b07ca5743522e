"""How faithful a growing part of the late neurons is, as areas under the curve (method, section 7).

CPR and CMD are those of the circuit track of MIB (Mueller et al. 2025), for neurons at the last token: all late
neurons but the first n of an order are ablated, and the logit difference of the right and a corrupt answer is
measured. CPR is the area under the faithfulness over the share of neurons that is kept, CMD the area of its
distance from 1.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import final_residual, unembed
from form_invariance.model.memory import rows_at_once
from form_invariance.model.replay import build_cache, last_token_neurons
from form_invariance.randomness import generator
from form_invariance.stages.faithfulness.table import (
    CMD,
    CPR,
    EXACT,
    FAITHFULNESS,
    GAIN,
    MEAN,
    RANDOM,
    RESAMPLE,
    RETAINED,
)
from form_invariance.stages.intervene import replace_last
from form_invariance.stages.run import Run
from form_invariance.statistics import bootstrap_weights, ranks, resampled_interval, resampled_share

SHARES = np.array([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1])
"""Shares of a layer that are kept, as in MIB."""
LEAST_LOSS = 1e-3
"""Logits. A smaller loss of logit difference by ablating all late neurons leaves faithfulness undefined."""

Orders = dict[str, np.ndarray]
"""Place of each late neuron, 0 = kept first, (draws, late layers, m); one draw but for random orders."""


def places(run: Run, ranking: pd.DataFrame, attribution: pd.DataFrame) -> np.ndarray:
    """Places by both stages of the ranking, (late layers, m): the patched neurons, then the others."""
    exact, first = (run.by_neuron(table, "rank") for table in (ranking, attribution))
    return _places(np.where(np.isnan(exact), run.width + first, exact))


def _places(values: np.ndarray) -> np.ndarray:
    """Places by ascending values within each layer, (late layers, m); ties by number."""
    return ranks(-values, np.arange(values.shape[1]))


def orders_of(
    run: Run,
    ranked: Mapping[str, np.ndarray],
    name: str,
    first: pd.DataFrame,
    draws: int,
    seed: int,
    operator: str,
) -> Orders:
    """The orders in which a format's neurons are kept.

    Args:
        ranked: `places` of every format.
        name: the format.
        first: its attribution table.
        draws: random orders, the same in all formats.
    """
    every = np.stack(list(ranked.values()))
    # A neuron is among the shared ones of size k if its worst place is below k; ties go by the mean place.
    shared = _places(every.max(0) + every.mean(0) / run.width)
    numbers = np.tile(np.arange(run.width), (len(run.late), 1))
    streams = [generator(seed, "faithfulness", operator, draw) for draw in range(draws)]
    random = np.stack([rng.permuted(numbers, axis=1) for rng in streams])
    attribution = _places(run.by_neuron(first, "rank"))
    single = {EXACT: ranked[name], "attribution": attribution, "shared": shared}
    return {order: places[None] for order, places in single.items()} | {RANDOM: random}


def partners(answers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each prompt the number of another one with another answer, (P,); -1 where there is none."""
    chosen = np.full(len(answers), -1)
    for place, answer in enumerate(answers):
        others = np.flatnonzero(answers != answer)
        if len(others):
            chosen[place] = rng.choice(others)
    return chosen


@torch.no_grad()
def logit_differences(run: Run, tokens: Tensor, answers: Tensor, ablated: Tensor, given: Tensor) -> np.ndarray:
    """Logit of the right minus the corrupt answer, with sets of late neurons ablated at the last token.

    Args:
        tokens: (P, T).
        answers: token ids of the right and of the corrupt answer, (P, 2).
        ablated: the sets, bool, (S, late layers, m).
        given: what an ablated neuron takes, (late layers, P, m).

    Returns:
        (S, P), float64.
    """
    every, differences = [], []
    for rows, batch in by_length(tokens, max(1, rows_at_once(run.model) // len(ablated))):
        cache = build_cache(run.model, batch, run.first)
        x = final_residual(run.model, replace_last(run.model, cache, ablated, given[:, rows]))
        both = unembed(run.model, x, run.model.unembedding[answers[rows]]).double()  # (B, S, 2)
        every.append(rows)
        differences.append((both[..., 0] - both[..., 1]).T)
    return np.asarray(in_order(every, differences, dim=1).cpu())


def curves(differences: np.ndarray, whole: np.ndarray, none: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Faithfulness (resamples, sets): mean gain over `none`, of the mean gain of the `whole` model.

    Args:
        differences: (sets, P).
        whole: of the unmodified model, (P,).
        none: with all late neurons ablated, (P,).
        weights: how often each prompt is in each resample, (resamples, P).
    """
    gain, gap = weights @ (differences - none).T, weights @ (whole - none)
    gap = np.where(np.abs(gap) < LEAST_LOSS * weights.sum(1), np.nan, gap)
    return np.asarray(gain / gap[:, None])


def areas(faithfulness: np.ndarray) -> dict[str, np.ndarray]:
    """CPR and CMD (...) of faithfulness (..., SHARES), by the trapezoid rule from the first share to the last."""
    return {
        CPR: np.trapezoid(faithfulness, SHARES, axis=-1),
        CMD: np.trapezoid(np.abs(1 - faithfulness), SHARES, axis=-1),
    }


def cell_rows(
    run: Run, tokens: Tensor, right: Tensor, orders: Orders, means: Tensor, resamples: int, seed: int, *names: str
) -> Iterator[dict[str, object]]:
    """The table's rows of one cell.

    Args:
        tokens: eval prompts (P, T).
        right: token ids of their answers (P,).
        means: of the late neurons at the last token, (late layers, m).
        names: of the cell, for its draws.
    """
    others = partners(right.cpu().numpy(), generator(seed, "faithfulness", "partners", *names))
    paired = torch.from_numpy(np.flatnonzero(others >= 0)).to(tokens.device)
    chosen = torch.from_numpy(others).to(tokens.device)[paired]
    answers = torch.stack([right[paired], right[chosen]], dim=1)
    corrupt = last_token_neurons(run.model, tokens, run.first)[:, chosen]
    kept = (SHARES * run.width).astype(int)
    placed = np.concatenate(list(orders.values()))[:, None]  # (draws of all orders, 1, late layers, m)
    masks = (placed >= kept[:, None, None]).reshape(-1, *placed.shape[2:])
    # The last share of an order ablates nothing; a set of all neurons comes last.
    whole, none = len(SHARES) - 1, len(masks)
    ablated = torch.from_numpy(np.concatenate([masks, np.ones_like(masks[:1])])).to(tokens.device)
    weights = np.ones((1, len(paired)))  # the sample itself
    if len(paired):
        weights = np.vstack([weights, bootstrap_weights(len(paired), resamples, seed, "faithfulness", *names)])
    for ablation, given in ((MEAN, means[:, None].expand_as(corrupt)), (RESAMPLE, corrupt)):
        every = np.full((1, len(masks)), np.nan)  # (resamples, sets)
        if len(paired):
            differences = logit_differences(run, tokens[paired], answers, ablated, given)
            every = curves(differences[:-1], differences[whole], differences[none], weights)
        for row in _rows(every.reshape(len(every), -1, len(SHARES)), orders, kept):
            yield {**row, "ablation": ablation, "prompts": len(paired)}


def _rows(every: np.ndarray, orders: Orders, kept: np.ndarray) -> Iterator[dict[str, object]]:
    """Rows of all orders from faithfulness (resamples, draws of all orders, SHARES), that of the sample first."""
    by_order: dict[str, dict[str, np.ndarray]] = {}
    starts = np.cumsum([len(masks) for masks in orders.values()])[:-1]
    for order, curve in zip(orders, np.split(every, starts, axis=1), strict=True):
        by_order[order] = {name: values.mean(1) for name, values in areas(curve).items()}
        for share, number, values in zip(SHARES, kept, curve.mean(1).T, strict=True):
            size = {"share": float(share), "n_neurons": int(number)}
            yield {"order": order, "measure": FAITHFULNESS, **size, **_interval(values)}
    gains = {order: {name: own[name] - by_order[RANDOM][name] for name in own} for order, own in by_order.items()}
    for order, of_order in by_order.items():
        values = dict(of_order)
        if order != RANDOM:
            values |= {name + GAIN: gain for name, gain in gains[order].items()}
        if order not in (EXACT, RANDOM):
            values[RETAINED] = resampled_share(gains[order][CPR], gains[EXACT][CPR])
        for name, value in values.items():
            yield {"order": order, "share": np.nan, "n_neurons": -1, "measure": name, **_interval(value)}


def _interval(values: np.ndarray) -> dict[str, float]:
    """The sample's value, which is the first, and the 95 % percentile interval of the resamples."""
    return dict(zip(("value", "low", "high"), resampled_interval(values), strict=True))
