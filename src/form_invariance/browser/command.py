"""The neuron browser."""

from pathlib import Path

from form_invariance.beyond.neuron_effects.table import NEURON_EFFECTS, PROMOTED_TOKENS, ROW_ACTIVATIONS
from form_invariance.browser.neurons import CellTables
from form_invariance.browser.page import browser_page
from form_invariance.errors import UserError
from form_invariance.experiment.options import Files, OtherFiles, json_object
from form_invariance.stages.heuristics import map_files
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.patching.table import RANKING
from form_invariance.tables.files import read_table, read_tensors, write_text
from form_invariance.tables.keys import by_cell, common_keys, matching_cells


def browser(
    *,
    models: list[str],
    asked: str,
    ranking_tables: Files,
    neuron_effects: Files,
    heuristics: OtherFiles = (),
    maps: OtherFiles = (),
    row_activations: OtherFiles = (),
    promoted_tokens: Path,
    k: int,
    output: Path,
) -> None:
    """Write one HTML file to look at the shared neurons of a model: effects, tokens, activations, heuristics.

    Args:
        models: names of all models, for links
        asked: by operator, what it asks in words, as JSON
        ranking_tables: ranking table of each cell
        neuron_effects: effects of single neurons in each cell
        heuristics: heuristics tables of the cells of expressions
        maps: their activation maps
        row_activations: activations by row, of the cells of tables of words
        promoted_tokens: table of the tokens that the neurons promote
        k: circuit size whose shared neurons are shown
        output: HTML file
    """
    questions = json_object(asked, "--asked")
    ranked, effects = matching_cells(ranking_tables=ranking_tables, neuron_effects=neuron_effects)
    labelled, mapped = matching_cells(heuristics=heuristics, maps=maps)
    rows = by_cell(row_activations)
    if ranked.keys() != labelled.keys() | rows.keys():
        raise UserError("--heuristics or --row-activations must have a file for each cell of --ranking-tables")
    cells: dict[str, dict[str, CellTables]] = {operator: {} for operator in questions}
    for (name, operator), ranking in ranked.items():
        key = name, operator
        cells[operator][name] = CellTables(
            ranking=read_table(ranking, RANKING),
            effects=read_table(effects[key], NEURON_EFFECTS),
            heuristics=read_table(labelled[key], HEURISTICS) if key in labelled else None,
            maps=map_files.from_arrays(read_tensors(mapped[key], map_files.KIND)[0]) if key in mapped else None,
            rows=read_table(rows[key], ROW_ACTIVATIONS) if key in rows else None,
        )
    tokens = read_table(promoted_tokens, PROMOTED_TOKENS)
    model = common_keys(*ranking_tables)["model"]
    write_text(output, browser_page(model, models, cells, tokens, k, questions))
