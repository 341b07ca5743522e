"""The paper's tables."""

from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.experiment.options import FilesOfModels
from form_invariance.paper import tables as paper
from form_invariance.paper.files import write_files
from form_invariance.stages.agreement.table import AGREEMENT, LABELLED
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.heuristics.names import SHARED
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.probe.table import PROBE
from form_invariance.tables.files import provenance_of
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.keys import keys_of


def paper_tables(*, tables: FilesOfModels, output_folder: Path) -> None:
    """Write the paper's tables as CSV, Markdown and LaTeX, with the paper's numbers next to ours.

    Args:
        tables: those of census, probe, heuristics, agreement and labelled neurons, in any order
        output_folder: receives the tables
    """
    inputs = {schema.name: schema for schema in (CENSUS, PROBE, HEURISTICS, AGREEMENT, LABELLED)}
    paths = input_paths(tables, inputs, "the paper's tables need")
    sources = {keys_of(path)["model"]: str(provenance_of(path)["model"]) for path in paths["census"]}
    input_tables = read_inputs(paths, inputs)
    for name, table in input_tables.items():
        if set(table["model"]) - sources.keys():
            raise UserError(f"--tables: a table of {name} is of a model without a table of census")
    # The paper labels the shared neurons alone.
    labels = input_tables["heuristics"][input_tables["heuristics"]["neurons"] == SHARED]
    agreement, labelled = (
        input_tables[name][input_tables[name]["kind"] == SHARED] for name in ("agreement", "labelled")
    )
    rows = paper.agreement(agreement, labelled, sources)
    for name, table in {
        "census": paper.census(input_tables["census"], sources),
        "probe": paper.probe(input_tables["probe"], sources),
        "agreement": rows,
        "heuristic_summary": paper.summary(rows, sources),
        "significance": paper.significance(agreement, sources),
        "families": paper.families(labels, sources),
    }.items():
        write_files(table, output_folder / name, paper.CAPTIONS[name])
