"""Write one HTML file to look at the shared neurons of a model: effects, tokens, activations, heuristics."""

import argparse
import json
from pathlib import Path

from form_invariance.errors import UserError
from form_invariance.stages.options import add_files, add_options, add_required


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", required=True, help="names of all models, for links")
    parser.add_argument(
        "--asked", type=json.loads, required=True, help="by operator, what it asks in words, as JSON"
    )
    add_files(parser, "--rankings", "ranking table of each cell")
    add_files(parser, "--neuron-effects", "effects of single neurons in each cell")
    add_files(parser, "--heuristics", "heuristics tables of the cells of expressions", required=False)
    add_files(parser, "--maps", "their activation maps", required=False)
    add_files(parser, "--row-activations", "activations by row, of the cells of tables of words", required=False)
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
    from form_invariance.tables.keys import by_cell, common_keys, matching_cells

    rankings, effects = matching_cells(rankings=arguments.rankings, neuron_effects=arguments.neuron_effects)
    heuristics, maps = matching_cells(heuristics=arguments.heuristics, maps=arguments.maps)
    rows = by_cell(arguments.row_activations)
    if rankings.keys() != heuristics.keys() | rows.keys():
        raise UserError("--heuristics or --row-activations must have a file for each cell of --rankings")
    cells: dict[str, dict[str, Cell]] = {operator: {} for operator in arguments.asked}
    for (name, operator), ranking in rankings.items():
        key = name, operator
        mapped = key in maps
        cells[operator][name] = Cell(
            ranking=read_table(ranking, RANKING),
            effects=read_table(effects[key], NEURON_EFFECTS),
            heuristics=read_table(heuristics[key], HEURISTICS) if mapped else None,
            maps=map_files.from_arrays(read_tensors(maps[key], map_files.KIND)[0]) if mapped else None,
            rows=None if mapped else read_table(rows[key], ROW_ACTIVATIONS),
        )
    tokens = read_table(arguments.promoted_tokens, PROMOTED_TOKENS)
    model = common_keys(*arguments.rankings)["model"]
    page = browser_page(model, arguments.models, cells, tokens, arguments.k, arguments.asked)
    write_text(arguments.output, page)
