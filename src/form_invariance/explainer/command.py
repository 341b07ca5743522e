"""Write one HTML file that explains the experiment in five steps, by one problem of one model."""

import argparse

from form_invariance.errors import UserError
from form_invariance.stages.options import add_keyed, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, text in (("--model", "name of the model"), ("--operator", "name of the operator")):
        parser.add_argument(name, required=True, help=text)
    parser.add_argument("--asked", required=True, help="what the operator asks, in words")
    tables = "the tables that the steps are made from"
    parser.add_argument("--tables", nargs="+", required=True, metavar="NAME/FORMAT=FILE", help=tables)
    add_keyed(parser, "--maps", "FORMAT=FILE", "activation maps; none of a table of words", required=False)
    add_required(parser, int, k="circuit size that the page speaks of")
    add_options(parser, effects="indirect effects of the first format", answers="the report's answers, as JSON")
    add_options(parser, output="HTML file")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.explainer.page import Explained, render
    from form_invariance.stages.answers import read_answers
    from form_invariance.stages.census.table import CENSUS
    from form_invariance.stages.circuit.table import CIRCUIT
    from form_invariance.stages.dataset.table import CORRUPT, DATASET
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.interventions.table import INTERVENTION_CONTRASTS, INTERVENTIONS
    from form_invariance.stages.overlap.table import OVERLAP
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.stages.summary.table import VERDICTS
    from form_invariance.tables.files import read_tensors, write_text
    from form_invariance.tables.inputs import Input, input_paths, read_inputs

    of_formats = {"census": CENSUS, "ranking": RANKING, "interventions": INTERVENTIONS}
    others = {"dataset": DATASET, "corrupt": CORRUPT, "circuit": CIRCUIT, "overlap": OVERLAP}
    others |= {"intervention_contrasts": INTERVENTION_CONTRASTS, "verdicts": VERDICTS}
    of_formats |= {"heuristics": HEURISTICS} if arguments.maps else {}
    inputs = {name: Input(schema, ("format",)) for name, schema in of_formats.items()}
    inputs |= {name: Input(schema) for name, schema in others.items()}
    paths = input_paths(arguments.tables, inputs, "the explained page")
    for (name,) in paths["ranking"] if arguments.maps else ():
        if name not in arguments.maps:
            raise UserError(f"--maps: {name!r} is missing; give one file for each format")
    maps = {
        name: map_files.from_arrays(read_tensors(path, map_files.KIND)[0]) for name, path in arguments.maps.items()
    }
    explained = Explained(
        model=arguments.model,
        operator=arguments.operator,
        asked=arguments.asked,
        k=arguments.k,
        tables=read_inputs(paths, inputs),
        effects=read_tensors(arguments.effects, "indirect_effects")[0],
        maps=maps,
        answers=read_answers(arguments.answers),
    )
    write_text(arguments.output, render(explained))
