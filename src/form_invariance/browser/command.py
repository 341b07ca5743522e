"""The neuron browser of one model."""

import argparse
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import keyed_paths, named_values

HELP = "one HTML file to look at the shared neurons of a model: heat maps, effects, heuristics"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--models", nargs="+", required=True, help="names of all models, for links")
    parser.add_argument(
        "--tables",
        nargs="+",
        required=True,
        metavar="NAME/FORMAT/OPERATOR=FILE",
        help="ranking, heuristics, neuron_effects and activation_maps of each cell",
    )
    parser.add_argument(
        "--operators", nargs="+", required=True, metavar="NAME=EXPRESSION", help="operators, with expressions"
    )
    parser.add_argument("--k", type=int, required=True, help="circuit size whose shared neurons are shown")
    parser.add_argument("--output", type=Path, required=True, help="HTML file")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from form_invariance.browser.neurons import Cell
    from form_invariance.browser.page import browser_page
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.neuron_effects.table import NEURON_EFFECTS
    from form_invariance.stages.ranking.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_atomically

    paths = keyed_paths(arguments.tables, "--tables", 3)

    def path(name: str, *cell: str) -> Path:
        if (name, *cell) not in paths:
            raise UserError(f"--tables: no table {'/'.join((name, *cell))!r} is given")
        return paths[name, *cell]

    def cell(*key: str) -> Cell:
        return Cell(
            ranking=read_table(path("ranking", *key), RANKING),
            heuristics=read_table(path("heuristics", *key), HEURISTICS),
            effects=read_table(path("neuron_effects", *key), NEURON_EFFECTS),
            maps=map_files.from_arrays(read_tensors(path("activation_maps", *key), map_files.KIND)[0]),
        )

    expressions = named_values(arguments.operators, "--operators", "EXPRESSION")
    formats = dict.fromkeys(name for _, name, _ in paths)
    cells = {operator: {name: cell(name, operator) for name in formats} for operator in expressions}
    page = browser_page(arguments.model, arguments.models, cells, arguments.k, expressions)
    write_atomically(arguments.output, lambda to: to.write_text(page, encoding="utf-8"))
