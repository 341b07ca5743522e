"""Write one HTML file to look at the shared neurons of a model: heat maps, effects, heuristics."""

import argparse
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_keyed, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--models", nargs="+", required=True, help="names of all models, for links")
    what = "ranking, neuron_effects, direct_effects and direct_effect_factors of each cell; with expressions also "
    what += "heuristics and activation_maps"
    add_keyed(parser, "--tables", "NAME/FORMAT/OPERATOR=FILE", what)
    add_keyed(parser, "--operators", "NAME=QUESTION", "operators, with what they ask")
    add_required(parser, int, k="circuit size whose shared neurons are shown")
    add_options(parser, output="HTML file")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.browser.neurons import Cell
    from form_invariance.browser.page import browser_page
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.neuron_effects.direct_files import KIND, from_arrays
    from form_invariance.stages.neuron_effects.table import DIRECT_EFFECTS, NEURON_EFFECTS
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_text

    paths, asked = arguments.tables, arguments.operators

    def path(*key: str) -> Path:
        if key not in paths:
            raise UserError(f"--tables: no table {'/'.join(key)!r} is given")
        return Path(paths[key])

    def cell(name: str, operator: str) -> Cell:
        key = name, operator
        ranking = read_table(path("ranking", *key), RANKING)
        effects = read_table(path("neuron_effects", *key), NEURON_EFFECTS)
        problems = read_table(path("direct_effects", *key), DIRECT_EFFECTS)
        direct = from_arrays(read_tensors(path("direct_effect_factors", *key), KIND)[0])
        if not any(("activation_maps", one, operator) in paths for one in formats):
            return Cell(ranking, effects, problems, direct)
        maps = map_files.from_arrays(read_tensors(path("activation_maps", *key), map_files.KIND)[0])
        return Cell(ranking, effects, problems, direct, read_table(path("heuristics", *key), HEURISTICS), maps)

    formats = dict.fromkeys(name for _, name, _ in paths)
    cells = {operator: {name: cell(name, operator) for name in formats} for operator in asked}
    page = browser_page(arguments.model, arguments.models, cells, arguments.k, asked)
    write_text(arguments.output, page)
