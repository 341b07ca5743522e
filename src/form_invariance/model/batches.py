"""Batches of prompts of one length, from prompts of several lengths.

Token ids of several prompts are kept in one tensor (P, T). A prompt shorter than T is padded on the left, so that
the last column is every prompt's last token. No padding ever runs through a model: a batch holds prompts of one
length, without it.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from form_invariance.problems.prompts import PAD


def by_length(tokens: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of at most `size` prompts of one length, the shortest prompts first.

    Args:
        tokens: token ids (P, T), padded on the left.

    Yields:
        The rows of a batch's prompts, (b,), and their token ids without padding, (b, t).
    """
    lengths = (tokens != PAD).sum(1)
    for length in lengths.unique().tolist():
        rows = (lengths == length).nonzero()[:, 0]
        for batch_rows in rows.split(size):
            yield batch_rows, tokens[batch_rows, tokens.shape[1] - length :]


def in_order(rows: Sequence[Tensor], pieces: Sequence[Tensor], dim: int) -> Tensor:
    """Join the batches' results along `dim` in the order of the prompts.

    Args:
        rows: the prompts of each batch, from `by_length`.
    """
    order = torch.cat(list(rows))
    joined = torch.cat(list(pieces), dim)
    if (order[1:] > order[:-1]).all():
        return joined
    return joined.index_select(dim, order.argsort().to(joined.device))
