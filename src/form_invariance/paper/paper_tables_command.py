"""The paper's tables, as CSV, Markdown and LaTeX."""

import argparse
from pathlib import Path

from form_invariance.stages.options import keyed_paths

HELP = "write the paper's tables, with the paper's numbers beside ours where it has them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--source", nargs="+", required=True, metavar="MODEL=SOURCE", help="sources of the models")
    cell, shared = "MODEL/FORMAT/OPERATOR=FILE", "MODEL/OPERATOR=FILE"
    parser.add_argument("--census", nargs="+", required=True, metavar=cell, help="census tables")
    parser.add_argument(
        "--probes",
        nargs="+",
        required=True,
        metavar="MODEL/FORMAT=FILE",
        help="probe tables; MODEL/shared: all formats",
    )
    parser.add_argument("--heuristics", nargs="+", required=True, metavar=cell, help="heuristics tables")
    parser.add_argument("--agreement", nargs="+", required=True, metavar=shared, help="agreement tables")
    parser.add_argument("--labelled", nargs="+", required=True, metavar=shared, help="tables of labelled neurons")
    parser.add_argument("--output-folder", type=Path, required=True, help="receives the tables")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.errors import UserError
    from form_invariance.paper import tables
    from form_invariance.paper.files import write_files
    from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.probe.table import PROBE
    from form_invariance.tables.files import read_tables

    sources = dict(item.partition("=")[::2] for item in arguments.source)
    census = read_tables(keyed_paths(arguments.census, "--census", 3), CENSUS)
    probes = read_tables(keyed_paths(arguments.probes, "--probes", 2), PROBE)
    heuristics = read_tables(keyed_paths(arguments.heuristics, "--heuristics", 3), HEURISTICS)
    agreements = read_tables(keyed_paths(arguments.agreement, "--agreement", 2), AGREEMENT)
    labelled = read_tables(keyed_paths(arguments.labelled, "--labelled", 2), LABELLED)
    lacking = {key[0] for key in (*census, *probes, *heuristics, *agreements)} - sources.keys()
    if lacking or labelled.keys() != agreements.keys():
        raise UserError(f"--source or --labelled lacks entries of {sorted(lacking) or '--agreement'}")
    rows = tables.agreement(agreements, labelled, sources)  # type: ignore[arg-type]
    made = {
        "census": tables.census(census, sources),  # type: ignore[arg-type]
        "probe": tables.probe(probes, sources),  # type: ignore[arg-type]
        "agreement": rows,
        "heuristic_summary": tables.summary(rows, sources),
        "significance": tables.significance(agreements, sources),  # type: ignore[arg-type]
        "families": tables.families(heuristics, sources),  # type: ignore[arg-type]
    }
    for name, table in made.items():
        write_files(table, arguments.output_folder / name, tables.CAPTIONS[name])
