"""Exchange of the residual stream: from which layer on a donor's state decides the answer.

After one layer the last token of a prompt (the target) takes the residual stream that the last token of another
prompt (the donor) has there. The later layers read this state and the target's own earlier positions. An exchange
between the layer's attention and its MLP would be the same, because the MLP reads nothing but this state. We count
the outputs that become the donor's answer, and those that remain the target's. Donors are answered right: another
problem with another answer, in the same or in another format; a prompt of another operator; a prompt that copies a
number; and, where the target is wrong, the same problem in another format.

The own format's state *arrives* in the first layer where its donors decide at least half of the outputs. Two
formats *meet* in the first such layer where the other format's donors decide at least `.8` of what the own
format's do. A target *leaves* in the last layer where its own answer survives in at least `.8` of the prompts.
After the last layer nothing but the unembedding reads the state, so this layer counts for none of the three.

A state may contain its format, and neurons of that format alone may read it. So formats that meet need not share
neurons. If donors that copy decide equally many outputs, the state that arrives shows no more arithmetic than a
copied number.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from form_invariance.experiment.readout import check_finite
from form_invariance.experiment.run import Run
from form_invariance.model.batches import by_length, in_order
from form_invariance.model.decoder import Decoder, finish_layer, logits, sum_exp
from form_invariance.model.memory import logits_at_once, rows_at_once
from form_invariance.model.replay import LastTokenCache, attend, build_cache, select
from form_invariance.stages.transfer.directions import permuted
from form_invariance.tables.progress import Progress

_BATCH = 32


def exchange(model: Decoder, cache: LastTokenCache, donor_states: Tensor) -> Tensor:
    """Residual stream after the last layer, for an exchange of the last token's state after each layer alone.

    Args:
        cache: the targets' cache, from layer 0 on.
        donor_states: (B, layers, d).

    Returns:
        (B, layers, d), by the layer of the exchange.
    """
    x = donor_states[:, :1]
    for layer in range(1, model.config.n_layers):
        x = finish_layer(model, layer, x, attend(model, layer, x, cache), None, None)
        x = torch.cat([x, donor_states[:, layer, None]], 1)
    return x


def read_two(model: Decoder, x: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities of two tokens each, (B, N, 2), and the most probable tokens, (B, N).

    Args:
        x: residual stream after the last layer, (B, N, d).
        tokens: (B, 2).
    """
    step, pairs = logits_at_once(model), tokens.repeat_interleave(x.shape[1], 0)
    probabilities, predicted = [], []
    for rows, pair in zip(x.flatten(0, 1).split(step), pairs.split(step), strict=True):
        z = logits(model, rows)
        # The mean is finite only if every logit is.
        check_finite(z.mean(1), "the model's logits")
        largest, best = z.max(1, keepdim=True)
        exponentials = (z.gather(1, pair).double() - largest).exp()
        probabilities.append(exponentials / sum_exp(z, largest).double()[:, None])
        predicted.append(best[:, 0])
    return torch.cat(probabilities).view(*x.shape[:2], 2), torch.cat(predicted).view(x.shape[:2])


def of_prompts(
    run: Run, prompts: Sequence[str], first: int, read: Callable[[LastTokenCache], Tensor], dim: int = 0
) -> Tensor:
    """What `read` returns for every prompt, joined in order.

    Args:
        first: first layer of the caches.
        read: reads a tensor from a cache; dimension `dim` is that of the prompts.
    """
    rows, batches = zip(*by_length(run.tokens(prompts), _BATCH), strict=True)
    return in_order(rows, [read(build_cache(run.model, batch, first)) for batch in batches], dim)


def of_donors(
    run: Run, donations: pd.DataFrame, first: int, read: Callable[[LastTokenCache], Tensor]
) -> tuple[Tensor, Tensor]:
    """What `read` returns for every donor prompt, (prompts, ...), and the row of each donation in it.

    Args:
        first: first layer of the caches.
        read: reads a tensor (B, ...) from a cache.
    """
    prompts, donor_of = np.unique(donations["donor_prompt"], return_inverse=True)
    return of_prompts(run, prompts.tolist(), first, read), torch.from_numpy(donor_of).to(run.model.device)


def of_targets(
    run: Run, donations: pd.DataFrame, first: int, runs: int
) -> Iterator[tuple[LastTokenCache, Tensor]]:
    """The targets' caches for some donations at a time, and these donations' rows.

    Args:
        first: first layer of the caches.
        runs: number of runs of each donation.
    """
    by_target = donations.groupby("prompt").indices
    targets, progress = [str(prompt) for prompt in by_target], Progress(len(donations), "donors")
    at_once = max(1, rows_at_once(run.model) // runs)
    for batch, tokens in by_length(run.tokens(targets), _BATCH):
        cache = build_cache(run.model, tokens, first)
        pairs = torch.tensor(
            [(number, row) for number, target in enumerate(batch) for row in by_target[targets[target]]]
        )
        for numbers, rows in (piece.T for piece in pairs.split(at_once)):
            yield select(cache, numbers.to(run.model.device)), rows
            progress.add(len(rows))


def tokens_of(run: Run, donations: pd.DataFrame) -> Tensor:
    """The donor's and the target's answer, (donations, 2)."""
    return torch.tensor(donations[["donor_token", "own_token"]].to_numpy().tolist(), device=run.model.device)


@torch.no_grad()
def run_exchanges(run: Run, donations: pd.DataFrame) -> pd.DataFrame:
    """The table of one cell, with every donation after every layer.

    Args:
        donations: a row for each target and donor (`donors.donations`).
    """
    tokens = tokens_of(run, donations)
    states, donors = of_donors(run, donations, 0, lambda cache: cache.residual[1:].transpose(0, 1))
    done, probabilities, outputs = [], [], []
    for cache, rows in of_targets(run, donations, 0, run.model.config.n_layers):
        x = exchange(run.model, cache, states[donors[rows]])
        probability, predicted = read_two(run.model, x, tokens[rows])
        done.append(rows)
        probabilities.append(probability)
        outputs.append(predicted)
    return _table(donations, tokens, in_order(done, probabilities, 0), in_order(done, outputs, 0))


def _table(donations: pd.DataFrame, tokens: Tensor, probability: Tensor, predicted: Tensor) -> pd.DataFrame:
    """A row for each donation and layer, from tensors (donations, layers, ...)."""
    by_permuted = torch.empty(predicted.shape, dtype=torch.float64)
    for group in donations.groupby(["donor", "donor_format"]).indices.values():
        rows = torch.from_numpy(group)
        by_permuted[rows] = permuted(predicted[rows].T, *tokens[rows].T).T.cpu()
    repeated = donations.loc[donations.index.repeat(predicted.shape[1]), ["donor", "donor_format", "a", "b"]]
    return repeated.reset_index(drop=True).assign(
        layer=np.tile(np.arange(predicted.shape[1]), len(donations)),
        donor_answer=(predicted == tokens[:, :1]).flatten().cpu().numpy(),
        permuted_answer=by_permuted.flatten().numpy(),
        own_answer=(predicted == tokens[:, 1:]).flatten().cpu().numpy(),
        donor_probability=probability[..., 0].flatten().cpu().numpy(),
        own_probability=probability[..., 1].flatten().cpu().numpy(),
    )
