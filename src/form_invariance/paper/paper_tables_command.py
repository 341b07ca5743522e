"""The paper's tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from form_invariance.errors import UserError
from form_invariance.experiment.options import Files
from form_invariance.stages.heuristics.names import SHARED

if TYPE_CHECKING:
    import pandas as pd


def _of_shared(tables: "dict[Any, pd.DataFrame]", column: str) -> "dict[Any, pd.DataFrame]":
    return {key: table[table[column] == SHARED] for key, table in tables.items()}


def paper_tables(
    *, censuses: Files, probes: Files, heuristics: Files, agreement: Files, labelled: Files, output_folder: Path
) -> None:
    """Write the paper's tables as CSV, Markdown and LaTeX, with the paper's numbers next to ours.

    Args:
        censuses: census table of each cell
        probes: probe tables
        heuristics: heuristics table of each cell
        agreement: agreement table of each operator
        labelled: tables of labelled neurons of each operator
        output_folder: receives the tables
    """
    from form_invariance.paper import tables
    from form_invariance.paper.files import write_files
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import provenance_of, read_tables
    from form_invariance.tables.keys import by_key

    paths = by_key(censuses, *CENSUS.keys)
    sources = {model: str(provenance_of(path)["model"]) for (model, *_), path in paths.items()}
    asked = read_tables(paths, CENSUS)
    probed = read_tables(by_key(probes, *PROBE.keys), PROBE)
    # The paper labels the shared neurons alone.
    followed = _of_shared(read_tables(by_key(heuristics, *HEURISTICS.keys), HEURISTICS), "neurons")
    agreements = _of_shared(read_tables(by_key(agreement, *AGREEMENT.keys), AGREEMENT), "kind")
    counts = _of_shared(read_tables(by_key(labelled, *LABELLED.keys), LABELLED), "kind")
    missing = {key[0] for key in (*probed, *followed, *agreements)} - sources.keys()
    if missing or counts.keys() != agreements.keys():
        raise UserError(f"--censuses or --labelled: tables of {sorted(missing) or '--agreement'} are missing")
    rows = tables.agreement(agreements, counts, sources)
    made = {
        "census": tables.census(asked, sources),
        "probe": tables.probe(probed, sources),
        "agreement": rows,
        "heuristic_summary": tables.summary(rows, sources),
        "significance": tables.significance(agreements, sources),
        "families": tables.families(followed, sources),
    }
    for name, table in made.items():
        write_files(table, output_folder / name, tables.CAPTIONS[name])
