"""Which heads bring the donor's answer to the last token.

In one layer the last token's outputs of some heads (`hook_z`, before the output projection) are those of the
donor's run. All else of the layer, its MLP and the later layers compute as usual. One half of the problems orders
the heads by their effect alone, and the other half measures them, so that no head is favoured by chance.
"""

from collections.abc import Mapping
from functools import partial
from itertools import compress, product

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


def _outputs(cache: LastTokenCache, model: Decoder, layers: range) -> Tensor:
    """Outputs of all heads at the last token, (B, layers, H, D)."""
    before = cache.residual[:, :, None]
    return torch.cat([attend(model, layer, before[layer - cache.first], cache) for layer in layers], 1)


def _exchange(
    model: Decoder, cache: LastTokenCache, layer: int, donor_outputs: Tensor, head_masks: Tensor
) -> Tensor:
    """Residual stream after the last layer if some heads of a layer have the donor's outputs, (B, N, d).

    Args:
        donor_outputs: (B, H, D).
        head_masks: the heads of each run, bool, (N, H).
    """
    x = cache.residual[layer - cache.first, :, None]
    z = torch.where(head_masks[..., None], donor_outputs[:, None], attend(model, layer, x, cache))
    return replay(model, cache, finish_layer(model, layer, x, z, None, None), layer + 1)


@torch.no_grad()
def exchanged(
    run: Run, donations: pd.DataFrame, layers: range, head_masks: Tensor
) -> tuple[np.ndarray, np.ndarray]:
    """Whether the output is the donor's, and the probability of the donor's, (donations, layers, N) each.

    Args:
        donations: a row for each target and donor (`donors.donations`).
        head_masks: the heads that are exchanged in each of N runs, bool, (layers, N, H).
    """
    model, first, runs = run.model, layers.start, head_masks.shape[1]
    tokens, head_masks = tokens_of(run, donations), head_masks.to(run.model.device)
    donor_outputs, donors = of_donors(run, donations, first, partial(_outputs, model=model, layers=layers))
    done, probabilities, answers = [], [], []
    for cache, rows in of_targets(run, donations, first, runs):
        row_outputs = donor_outputs[donors[rows]]
        x = [_exchange(model, cache, layer, row_outputs[:, at], head_masks[at]) for at, layer in enumerate(layers)]
        probability, predicted = read_two(model, torch.cat(x, 1), tokens[rows])
        done.append(rows)
        probabilities.append(probability[..., 0])
        answers.append(predicted == tokens[rows, :1])
    shape = len(donations), len(layers), runs
    came_out, probable = (
        in_order(done, batches, 0).view(shape).cpu().numpy() for batches in (answers, probabilities)
    )
    return came_out, probable


def of_pair(
    run: Run, donations: pd.DataFrame, operator: str, layers: range, resamples: int, seed: int
) -> pd.DataFrame:
    """The rows of the table of one target's and one donor's format; none with a single problem."""
    problems, count = problems_of(operator, donations["a"], donations["b"]), run.model.config.n_heads
    number, distinct = pd.factorize(pd.Series(problems))
    measured = generator(seed, "heads", operator).permutation(len(distinct))[number] % 2 == 1
    if not measured.any():
        return pd.DataFrame(columns=list(HEADS.columns))
    alone = torch.eye(count, dtype=torch.bool).expand(len(layers), -1, -1)
    effect = exchanged(run, donations[~measured], layers, alone)[1].mean(0)
    ranked = np.argsort(-effect, 1, kind="stable")
    rank = np.argsort(ranked, 1)
    together = torch.from_numpy(rank[:, None] <= rank[:, :, None])
    answer, probability = exchanged(run, donations[measured], layers, torch.cat([alone, together], 1))
    weights = resampling(list(compress(problems, measured)), resamples, seed)
    shares = resampled(np.moveaxis(answer.astype(float), 0, -1), weights)
    by_rank = np.take_along_axis(shares[0, :, count:], ranked, 1)
    all_heads = by_rank[:, -1:]
    member = (rank <= (by_rank >= SERVES * all_heads).argmax(1, keepdims=True)) & (all_heads > 0)
    _, low, high = zip(*map(resampled_interval, shares.reshape(len(shares), -1).T), strict=True)
    names = {"layer": layers, "exchanged": (ALONE, TOGETHER), "head": range(count)}
    return pd.DataFrame(product(*names.values()), columns=[*names]).assign(
        **{
            name: np.hstack([by_head, by_head]).ravel()
            for name, by_head in (("rank", rank + 1), ("member", member))
        },
        **{"donor_answer": shares[0].ravel(), "low": low, "high": high},
        **{"donor_probability": probability.mean(0).ravel(), "prompts": len(answer)},
    )


def head_table(
    run: Run, donations: Mapping[str, pd.DataFrame], operator: str, at: int, resamples: int, seed: int
) -> pd.DataFrame:
    """The table of one operator: heads of the layer where states arrive, and of those before and after it.

    Args:
        donations: by the targets' format.
        at: the layer; the number of layers if states arrive nowhere (then there is no row).
    """
    count = run.model.config.n_layers
    layers = range(max(0, at - 1), min(count, at + 2)) if at < count else range(0)
    parts = [pd.DataFrame(columns=list(HEADS.columns))]
    for target, to_target in donations.items() if layers else ():
        for donor, pair_donations in to_target[to_target["donor"] == FORMAT].groupby("donor_format", sort=False):
            rows = of_pair(run, pair_donations, operator, layers, resamples, seed)
            parts.append(rows.assign(target_format=target, donor_format=donor))
    table = pd.concat(parts[1:] or parts, ignore_index=True)
    return table.assign(from_arrival=table["layer"] - at)[list(HEADS.columns)]
