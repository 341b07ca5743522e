"""Overlap of the formats' best attention heads, its chance level and its ceiling.

Unlike neurons, heads are few and are ranked over the layers together: the h best of all layers, and of the
layers below the first late one, where operands are moved before late neurons compute.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.head_overlap.table import ALL, ROUTING
from form_invariance.stages.overlap.compute import overlap_table, reliability_table
from form_invariance.stages.patching.effects import Effects, Membership
from form_invariance.tables.columns import EVERY_LAYER


def _as_one_layer(effects: np.ndarray, layers: int, name: str, membership: Membership) -> Effects:
    """The heads of the first layers as if they were the neurons of a single one, from effects (P, L, H)."""
    flat = effects[:, :layers].reshape(1, len(effects), -1)
    heads = np.arange(flat.shape[-1])
    return Effects({0: flat}, {0: heads}, len(heads), name, membership)


def head_overlap_table(
    effects: Mapping[str, np.ndarray],
    sizes: Sequence[int],
    first_late: int,
    resamples: int,
    membership: Membership,
) -> pd.DataFrame:
    """Jaccard of the formats' best heads, of all formats and of each pair, with chance and ceiling.

    Args:
        effects: indirect effects of each format's prompts, (P, L, H).
        sizes: how many heads a format's set has, h.
        first_late: the first late layer.
        resamples: bootstrap resamples over train prompts.
        membership: which heads may be in a set; its seed is that of the resamples too.

    Returns:
        The head overlap table. Sizes that the layers below the first late one have not are left out there.

    Raises:
        UserError: a size is larger than the number of heads.
    """
    n_layers, per_layer = next(iter(effects.values())).shape[1:]
    if max(sizes) > n_layers * per_layer:
        raise UserError(
            f"heads: {max(sizes)} is larger than the {n_layers * per_layer} attention heads of the model; lower it"
        )
    tables = []
    for name, layers in ((ALL, n_layers), (ROUTING, first_late)):
        cells = {key: _as_one_layer(one, layers, key, membership) for key, one in effects.items()}
        possible = [h for h in sizes if h <= layers * per_layer]
        if possible:
            tables.append(
                _scope(cells, possible, resamples, membership.seed).assign(layers=name, ranked=layers * per_layer)
            )
    return pd.concat(tables, ignore_index=True)


def _scope(cells: Mapping[str, Effects], sizes: Sequence[int], resamples: int, seed: int) -> pd.DataFrame:
    """The rows of one choice of layers."""
    overlap = overlap_table(cells, sizes, resamples, seed)
    again = reliability_table(cells, sizes, seed)
    halves = again[again["kind"] == "split_half"].pivot(index="k", columns="format", values="jaccard")
    pooled = overlap[overlap["layer"] == EVERY_LAYER].drop(columns="layer").rename(columns={"k": "h"})
    ceiling = [
        halves.reindex(columns=formats.split("+")).loc[h].mean() if h in halves.index else np.nan
        for h, formats in zip(pooled["h"], pooled["formats"], strict=True)
    ]
    return pooled.assign(ceiling=ceiling)
