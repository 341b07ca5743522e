"""Write one HTML file to look at the shared neurons of a model: effects, tokens, activations, heuristics."""

import argparse
from pathlib import Path
from typing import Any

from form_invariance.errors import UserError
from form_invariance.stages.options import add_keyed, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", required=True, help="name of the model")
    parser.add_argument("--models", nargs="+", required=True, help="names of all models, for links")
    what = (
        "ranking and neuron_effects of each cell; for expressions also heuristics and activation_maps, for tables "
    )
    add_keyed(parser, "--tables", "NAME/FORMAT/OPERATOR=FILE", f"{what}of words row_activations")
    add_keyed(parser, "--operators", "NAME=QUESTION", "operators, with what they ask")
    add_required(parser, Path, promoted_tokens="table of the tokens that the neurons promote")
    add_required(parser, int, k="circuit size whose shared neurons are shown")
    add_options(parser, output="HTML file")


def run(arguments: argparse.Namespace) -> None:
    from form_invariance.browser.neurons import Cell
    from form_invariance.browser.page import browser_page
    from form_invariance.stages.heuristics import map_files
    from form_invariance.stages.heuristics.table import HEURISTICS
    from form_invariance.stages.neuron_effects.table import NEURON_EFFECTS, PROMOTED_TOKENS, ROW_ACTIVATIONS
    from form_invariance.stages.patching.table import RANKING
    from form_invariance.tables.files import read_table, read_tensors, write_text

    paths, asked = arguments.tables, arguments.operators

    def path(*key: str) -> Path:
        if key not in paths:
            raise UserError(f"--tables: no table {'/'.join(key)!r} is given")
        return Path(paths[key])

    def cell(name: str, operator: str) -> Cell:
        key = name, operator
        activations: dict[str, Any]
        if any(("row_activations", one, operator) in paths for one in formats):
            activations = {"rows": read_table(path("row_activations", *key), ROW_ACTIVATIONS)}
        else:
            maps = map_files.from_arrays(read_tensors(path("activation_maps", *key), map_files.KIND)[0])
            activations = {"maps": maps, "heuristics": read_table(path("heuristics", *key), HEURISTICS)}
        return Cell(
            ranking=read_table(path("ranking", *key), RANKING),
            effects=read_table(path("neuron_effects", *key), NEURON_EFFECTS),
            **activations,
        )

    formats = dict.fromkeys(name for _, name, _ in paths)
    cells = {operator: {name: cell(name, operator) for name in formats} for operator in asked}
    tokens = read_table(arguments.promoted_tokens, PROMOTED_TOKENS)
    page = browser_page(arguments.model, arguments.models, cells, tokens, arguments.k, asked)
    write_text(arguments.output, page)
