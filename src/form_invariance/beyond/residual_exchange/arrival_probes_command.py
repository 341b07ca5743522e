"""Probes of what arrives."""

from pathlib import Path

import pandas as pd

from form_invariance.beyond.residual_exchange.arrival import probe_table
from form_invariance.beyond.residual_exchange.table import ARRIVAL_PROBES
from form_invariance.experiment.model_options import load_model
from form_invariance.experiment.options import Files, ModelOptions, Seed, recorded
from form_invariance.experiment.run import Run
from form_invariance.stages.census.table import CENSUS
from form_invariance.tables.files import provenance_of, read_tables, write_table
from form_invariance.tables.keys import by_cell, common_keys


def arrival_probes(*, model: ModelOptions, censuses: Files, prompts: int, seed: Seed, output: Path) -> None:
    """Probe the last token for the answer and for the operands of one operator, in every layer.

    Args:
        censuses: census table of every format
        prompts: prompts of each format
        output: table of probes; without rows for a table of words, which has no operands
    """
    settings = recorded(locals())

    table = pd.DataFrame(columns=list(ARRIVAL_PROBES.columns))
    if expression := provenance_of(censuses[0]).get("expression"):
        run = Run(*load_model(model), first=0)
        table = probe_table(run, read_tables(by_cell(censuses), CENSUS), expression, prompts, seed)
        settings["device"] = str(run.model.device)
    write_table(table, output, ARRIVAL_PROBES, settings, common_keys(*censuses))
