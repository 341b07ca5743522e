"""Which heads bring the donor's answer to the last token.

In one layer, the last token's outputs of some heads (`hook_z`, before the output projection) are those of the
donor's run. The rest of the layer and the later layers compute as usual. One half of the problems ranks the heads
by their effect alone, and the other half measures them, so that no head is favoured by chance.
"""

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.beyond.residual_exchange.compute import of_donors, of_targets, read_two, tokens_of
from form_invariance.beyond.residual_exchange.table import ALONE, FORMAT, HEADS, TOGETHER
from form_invariance.experiment.contrasts.engine import problems_of, resampled, resampling
from form_invariance.experiment.contrasts.questions import SERVES
from form_invariance.experiment.run import Run
from form_invariance.model.batches import in_order
from form_invariance.model.decoder import Decoder, finish_layer
from form_invariance.model.replay import LastTokenCache, attend, replay
from form_invariance.randomness import generator
from form_invariance.statistics import resampled_interval


def _outputs(cache: LastTokenCache, model: Decoder, layer: int) -> Tensor:
    """Outputs of all heads of a layer at the last token, (B, H, D)."""
    return attend(model, layer, cache.residual[layer - cache.first, :, None], cache)[:, 0]


def _exchange(
    model: Decoder, cache: LastTokenCache, layer: int, donor_outputs: Tensor, head_masks: Tensor
) -> Tensor:
    """Residual stream after the last layer if some heads of a layer have the donor's outputs, (B, N, d).

    Args:
        donor_outputs: (B, H, D).
        head_masks: the heads of each run, bool, (B, N, H).
    """
    x = cache.residual[layer - cache.first, :, None]
    z = torch.where(head_masks[..., None], donor_outputs[:, None], attend(model, layer, x, cache))
    return replay(model, cache, finish_layer(model, layer, x, z, None, None), layer + 1)


@torch.no_grad()
def exchanged(run: Run, donations: pd.DataFrame, layer: int, head_masks: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Whether the output is the donor's, and the probability of the donor's output, (donations, N) each.

    Args:
        donations: a row for each target and donor (`donors.donations`).
        head_masks: the heads of the layer that are exchanged in each of N runs, bool, (donations, N, H).
    """
    tokens, head_masks = tokens_of(run, donations), head_masks.to(run.model.device)
    donor_outputs, donors = of_donors(run, donations, layer, partial(_outputs, model=run.model, layer=layer))
    done, probabilities, answers = [], [], []
    for cache, rows in of_targets(run, donations, layer, head_masks.shape[1]):
        x = _exchange(run.model, cache, layer, donor_outputs[donors[rows]], head_masks[rows])
        probability, predicted = read_two(run.model, x, tokens[rows])
        done.append(rows)
        probabilities.append(probability[..., 0])
        answers.append(predicted == tokens[rows, :1])
    came_out, probable = (in_order(done, batches, 0).cpu().numpy() for batches in (answers, probabilities))
    return came_out, probable


def _measuring(donations: pd.DataFrame, operator: str, seed: int) -> np.ndarray:
    """Which donations of two formats measure the heads, bool (n,); the donations of other problems rank them."""
    problems, distinct = pd.factorize(pd.Series(problems_of(operator, donations["a"], donations["b"])))
    return generator(seed, "heads", operator).permutation(len(distinct))[problems] % 2 == 1


def _rows(answer: np.ndarray, probability: np.ndarray, rank: np.ndarray, weights: np.ndarray) -> pd.DataFrame:
    """The rows of the table of one target's and one donor's format.

    Args:
        answer: whether the output is the donor's, (n, 2 H): for each head alone, then for all up to its rank.
        probability: probability of the donor's output, (n, 2 H).
        rank: rank of each head, from 0, (H,).
        weights: weights of the n exchanges, from `resampling`.
    """
    shares = resampled(answer.T.astype(float), weights)
    by_rank = shares[0, len(rank) :][np.argsort(rank)]
    member = (rank <= (by_rank >= SERVES * by_rank[-1]).argmax()) & (by_rank[-1] > 0)
    _, low, high = zip(*map(resampled_interval, shares.T), strict=True)
    return pd.DataFrame(product((ALONE, TOGETHER), range(len(rank))), columns=["exchanged", "head"]).assign(
        rank=np.tile(rank + 1, 2),
        member=np.tile(member, 2),
        prompts=len(answer),
        donor_answer=shares[0],
        low=low,
        high=high,
        donor_probability=probability.mean(0),
    )


def head_table(
    run: Run, donations: Mapping[str, pd.DataFrame], operator: str, layer: int, resamples: int, seed: int
) -> pd.DataFrame:
    """The table of one operator: heads of the layer where states arrive; pairs with a single problem have no row.

    Args:
        donations: donations by the targets' format.
        layer: where states arrive; if it is the number of layers, they do not, and the table is empty.
    """
    table = pd.concat([rows.assign(target_format=target) for target, rows in donations.items()], ignore_index=True)
    pairs = table[table["donor"] == FORMAT].groupby(["target_format", "donor_format"], sort=False)
    halves = {}  # donations that rank the heads, and that measure them, by target and donor
    for (target, donor), rows in pairs:
        measuring = _measuring(rows, operator, seed)
        if measuring.any():
            halves[str(target), str(donor)] = rows[~measuring], rows[measuring]
    if not halves or layer == run.model.config.n_layers:
        return pd.DataFrame(columns=list(HEADS.columns))
    orders, measures = (pd.concat(rows) for rows in zip(*halves.values(), strict=True))
    ends = [np.cumsum([len(rows) for rows in half])[:-1] for half in zip(*halves.values(), strict=True)]
    alone = torch.eye(run.model.config.n_heads, dtype=torch.bool)
    _, effects = exchanged(run, orders, layer, alone.expand(len(orders), -1, -1))
    ranks = [np.argsort(np.argsort(-effect.mean(0), kind="stable")) for effect in np.split(effects, ends[0])]
    masks = [torch.cat([alone, torch.from_numpy(rank <= rank[:, None])]) for rank in ranks]
    sizes = [len(rows) for _, rows in halves.values()]
    all_masks = torch.stack(masks).repeat_interleave(torch.tensor(sizes), 0)
    measured = [np.split(values, ends[1]) for values in exchanged(run, measures, layer, all_masks)]
    parts = []
    for pair, rank, answers, probabilities in zip(halves, ranks, *measured, strict=True):
        rows = halves[pair][1]
        weights = resampling(problems_of(operator, rows["a"], rows["b"]), resamples, seed)
        part = _rows(answers, probabilities, rank, weights)
        parts.append(part.assign(target_format=pair[0], donor_format=pair[1], layer=layer))
    return pd.concat(parts, ignore_index=True)[list(HEADS.columns)]
