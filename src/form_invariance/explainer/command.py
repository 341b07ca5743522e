"""The explained page."""

from importlib import import_module
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.experiment.answers import read_answers
from form_invariance.experiment.contrasts.table import CONTRASTS
from form_invariance.experiment.options import Files
from form_invariance.explainer.page import Explained, render
from form_invariance.explainer.pictures import WIDTH
from form_invariance.stage_folders import part_of
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.circuit.table import CIRCUIT
from form_invariance.stages.dataset.table import CORRUPT, DATASET
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.overlap.table import OVERLAP
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_tensors, write_text
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.tables.keys import by_key, common_keys
from form_invariance.verdicts.summary.table import VERDICTS


def explainer(
    *,
    asked: str,
    stages: tuple[str, ...] = (),
    tables: Files,
    maps: Files = (),
    k: int,
    effects: Path,
    answers: Path,
    output: Path,
) -> None:
    """Write one HTML file that explains the experiment in six steps, by one problem of one model.

    Args:
        asked: what the operator asks, in words
        stages: stages beyond the paper's that the page shows, too
        tables: the tables that the steps are made from, in any order
        maps: activation maps of each format; none of a table of words
        k: circuit size that the page speaks of
        effects: effects of the first format
        answers: the report's answers, as JSON
        output: HTML file
    """
    schemas = [CENSUS, RANKING, INTERVENTIONS, DATASET, CORRUPT, CIRCUIT, OVERLAP]
    schemas += [CONTRASTS, VERDICTS, *([HEURISTICS] if maps else [])]
    modules = {stage: import_module(f"form_invariance.{part_of(stage, 'explained')}") for stage in stages}
    inputs = {schema.name: schema for schema in schemas}
    inputs |= {name: schema for module in modules.values() for name, schema in module.INPUTS.items()}
    paths = input_paths(tables, inputs, "the explained page needs")
    of_formats, formats = by_key(maps, "format"), by_key(paths["ranking"], "format").keys()
    if maps and of_formats.keys() != formats:
        raise UserError("--maps must have a file for each format of the ranking tables and no other")
    for name in ("census", "interventions", *(["heuristics"] if maps else [])):
        if by_key(paths[name], "format").keys() != formats:
            raise UserError(f"--tables: there must be a table of {name} for each format of the ranking tables")
    mapped = {
        name: map_files.from_arrays(read_tensors(path, map_files.KIND)[0]) for name, path in of_formats.items()
    }
    keys = common_keys(*paths["ranking"])
    input_tables = read_inputs(paths, inputs)
    tensors, provenance = read_tensors(effects, "indirect_effects")
    explained = Explained(
        model=keys["model"],
        operator=keys["operator"],
        question=asked,
        k=k,
        ranking=provenance["ranking"],
        tables=input_tables,
        effects=tensors,
        maps=mapped,
        stages={stage: module.picture(input_tables, keys["operator"], WIDTH) for stage, module in modules.items()},
        answers=read_answers(answers)[1],
    )
    write_text(output, render(explained))
