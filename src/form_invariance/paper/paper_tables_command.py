"""Write the paper's tables as CSV, Markdown and LaTeX, with the paper's numbers next to ours where it has them."""

import argparse
from typing import TYPE_CHECKING, Any

from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.options import add_files, add_options

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_files(parser, "--census", "census table of each cell")
    add_files(parser, "--probes", "probe tables")
    add_files(parser, "--heuristics", "heuristics table of each cell")
    add_files(parser, "--agreement", "agreement table of each operator")
    add_files(parser, "--labelled", "tables of labelled neurons of each operator")
    add_options(parser, output_folder="receives the tables")


def _of_shared(tables: "dict[Any, pd.DataFrame]", column: str) -> "dict[Any, pd.DataFrame]":
    return {key: table[table[column] == SHARED] for key, table in tables.items()}


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.errors import UserError
    from form_invariance.paper import tables
    from form_invariance.paper.files import write_files
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import provenance_of, read_tables
    from form_invariance.tables.keys import by_key

    paths = by_key(arguments.census, *CENSUS.keys)
    sources = {model: str(provenance_of(path)["model"]) for (model, *_), path in paths.items()}
    census = read_tables(paths, CENSUS)
    probes = read_tables(by_key(arguments.probes, *PROBE.keys), PROBE)
    # The paper labels the shared neurons alone.
    heuristics = _of_shared(read_tables(by_key(arguments.heuristics, *HEURISTICS.keys), HEURISTICS), "neurons")
    agreements = _of_shared(read_tables(by_key(arguments.agreement, *AGREEMENT.keys), AGREEMENT), "kind")
    labelled = _of_shared(read_tables(by_key(arguments.labelled, *LABELLED.keys), LABELLED), "kind")
    missing = {key[0] for key in (*census, *probes, *heuristics, *agreements)} - sources.keys()
    if missing or labelled.keys() != agreements.keys():
        raise UserError(f"--census or --labelled: tables of {sorted(missing) or '--agreement'} are missing")
    rows = tables.agreement(agreements, labelled, sources)
    made = {
        "census": tables.census(census, sources),
        "probe": tables.probe(probes, sources),
        "agreement": rows,
        "heuristic_summary": tables.summary(rows, sources),
        "significance": tables.significance(agreements, sources),
        "families": tables.families(heuristics, sources),
    }
    for name, table in made.items():
        write_files(table, arguments.output_folder / name, tables.CAPTIONS[name])
