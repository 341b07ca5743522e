"""Shares, layers and contrasts of the exchanged residual stream."""

from pathlib import Path

from form_invariance.beyond.residual_exchange import contrasts
from form_invariance.beyond.residual_exchange.table import RESIDUAL_EXCHANGE, RESIDUAL_LAYERS, RESIDUAL_SHARES
from form_invariance.experiment.contrasts.table import RESIDUAL_CONTRASTS
from form_invariance.experiment.options import Bootstrap, Files, Seed, recorded
from form_invariance.tables.files import read_tables, write_table
from form_invariance.tables.keys import by_cell, common_keys


def residual_contrasts(
    *, tables: Files, bootstrap: Bootstrap, seed: Seed, shares_output: Path, layers_output: Path, output: Path
) -> None:
    """Find the layers where a model's formats meet, and compare the formats there.

    Args:
        tables: residual exchange table of every cell
        shares_output: table of shares by layer
        layers_output: table of layers
        output: table of contrasts
    """
    settings = recorded(locals())

    exchanged = contrasts.exchanges(read_tables(by_cell(tables), RESIDUAL_EXCHANGE), bootstrap, seed)
    keys = common_keys(*tables)
    write_table(contrasts.shares(exchanged), shares_output, RESIDUAL_SHARES, settings, keys)
    write_table(contrasts.layers(exchanged), layers_output, RESIDUAL_LAYERS, settings, keys)
    write_table(contrasts.contrasts(exchanged), output, RESIDUAL_CONTRASTS, settings, keys)
