"""Overlap of the formats' best attention heads, its chance level and its ceiling."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from form_invariance.errors import UserError
from form_invariance.stages.heads.overlap_table import ALL, ROUTING
from form_invariance.stages.membership import Effects, Membership
from form_invariance.stages.overlap.compute import overlap_table, reliability_table
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
        ranked = layers * per_layer
        if possible := [h for h in sizes if h <= ranked]:
            cells = {form: _as_one_layer(values, layers, form, membership) for form, values in effects.items()}
            table = overlap_table(cells, possible, resamples, membership.seed)
            pooled = table[table["layer"] == EVERY_LAYER].drop(columns="layer").rename(columns={"k": "h"})
            again = reliability_table(cells, possible, membership.seed)
            halves = again[again["kind"] == "split_half"].set_index(["k", "format"])["jaccard"]
            ceiling = [
                halves.reindex([(h, form) for form in formats.split("+")]).mean()
                for h, formats in zip(pooled["h"], pooled["formats"], strict=True)
            ]
            tables.append(pooled.assign(ceiling=ceiling, layers=name, ranked=ranked))
    return pd.concat(tables, ignore_index=True)
