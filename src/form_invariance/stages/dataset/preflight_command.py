"""Whether a run can begin."""

import sys
from pathlib import Path
from typing import Literal

from form_invariance.experiment.options import Files, Seed, recorded
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.dataset.compute import Choice
from form_invariance.stages.dataset.preflight import check, check_left, preflight_table
from form_invariance.stages.dataset.table import PREFLIGHT
from form_invariance.tables.files import provenance_of, read_table, write_table
from form_invariance.tables.keys import by_cell, common_keys


def preflight(
    *,
    censuses: Files,
    train: int,
    eval: int,
    corrupt_seeds: int,
    corrupt: Literal["within_operator", "across_operators"],
    seed: Seed,
    output: Path,
) -> None:
    """Check that every cell of a model has enough right answers, before anything expensive runs.

    Args:
        censuses: census table of every cell
        train: train prompts
        eval: eval prompts
        corrupt_seeds: draws of corrupt partners
        corrupt: where partners come from
        output: preflight table
    """
    settings = recorded(locals())

    tables = {
        cell: (read_table(path, CENSUS), provenance_of(path)["template"])
        for cell, path in by_cell(censuses).items()
    }
    choice = Choice(train, eval, corrupt_seeds, seed)
    across = corrupt == "across_operators"
    table = preflight_table(tables, choice, across)
    print(table.drop(columns="reason").to_string(index=False), file=sys.stderr)
    check(table, choice, tables)
    check_left(tables, choice, across)
    write_table(table, output, PREFLIGHT, settings, common_keys(*censuses))
