"""Write the paper's tables as CSV, Markdown and LaTeX, with the paper's numbers next to ours where it has them."""

import argparse
from typing import TYPE_CHECKING, Any

from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.options import add_keyed, add_options

if TYPE_CHECKING:
    import pandas as pd


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_keyed(parser, "--source", "MODEL=SOURCE", "sources of the models")
    add_keyed(parser, "--census", "MODEL/FORMAT/OPERATOR=FILE", "census tables")
    add_keyed(parser, "--probes", "MODEL/FORMAT=FILE", "probe tables; MODEL/shared: all formats")
    add_keyed(parser, "--heuristics", "MODEL/FORMAT/OPERATOR=FILE", "heuristics tables")
    add_keyed(parser, "--agreement", "MODEL/OPERATOR=FILE", "agreement tables")
    add_keyed(parser, "--labelled", "MODEL/OPERATOR=FILE", "tables of labelled neurons")
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
    from form_invariance.tables.files import read_tables

    sources = arguments.source
    census = read_tables(arguments.census, CENSUS)
    probes = read_tables(arguments.probes, PROBE)
    # The paper labels the shared neurons alone.
    heuristics = _of_shared(read_tables(arguments.heuristics, HEURISTICS), "neurons")
    agreements = _of_shared(read_tables(arguments.agreement, AGREEMENT), "kind")
    labelled = _of_shared(read_tables(arguments.labelled, LABELLED), "kind")
    missing = {key[0] for key in (*census, *probes, *heuristics, *agreements)} - sources.keys()
    if missing or labelled.keys() != agreements.keys():
        raise UserError(f"--source or --labelled: entries of {sorted(missing) or '--agreement'} are missing")
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
