"""The paper's numbers in the package against the paper's source, where it is present."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from form_invariance.paper.tables import read_numbers

PAPER = Path(os.environ.get("PAPER_TEX", Path(__file__).parents[3] / "shared/paper/paper.tex"))
ROWS = {
    "tab:correct_census": (9, 3),
    "tab:probe_results": (9, 5),
    "tab:heuristic_summary": (5, 3),
    "tab:app_detailed_heuristics": (12, 6),
    "tab:heuristic_significance": (12, 8),
    "tab:dist_llama3_8b": (11, 3),
    "tab:dist_llama32_3b": (10, 3),
    "tab:dist_llama32_1b": (11, 3),
}


def test_every_table_is_whole():
    numbers = read_numbers()
    assert Counter(numbers["table"]) == {table: rows * columns for table, (rows, columns) in ROWS.items()}
    keys = ["table", "model", "format", "operator", "family", "column"]
    assert not numbers.duplicated(keys).any()
    assert numbers["value"].notna().all()


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", ROWS)
def test_every_figure_is_the_papers(table):
    before = PAPER.read_text().partition(f"\\label{{{table}}}")[0]
    body = before.rpartition("\\begin{tabular}")[2].partition("\\midrule")[2].partition("\\bottomrule")[0]
    printed, number = [], re.compile(r"(L|\\ge|<)? ?[\d.]")
    for line in body.split("\\\\"):
        cells = [re.sub(r"\\[a-z]+\{|\}|\\midrule|\$|\\[!%]", "", cell).strip() for cell in line.split("&")]
        names = [cell.lower() for cell in cells if not number.match(cell)]
        values = [re.sub(r"\\ge|[L<, ]", "", cell) for cell in cells if number.match(cell)]
        printed += [(*names, place, float(value)) for place, value in enumerate(values) if names]
    paper_format = {"symbolic": "arithmetic", "code": "code", "word": "word"}
    numbers = read_numbers().query("table == @table")
    place_of: Counter = Counter()
    ours = []
    for row in numbers.itertuples():
        names = (row.model.lower(), paper_format.get(row.format, ""), row.operator)
        if table == "tab:heuristic_summary":
            names = (row.operator,)
        if table.startswith("tab:dist"):
            names = (row.family,)
        names = tuple(filter(None, names))
        ours.append((*names, place_of[names], row.value))
        place_of[names] += 1
    assert sorted(ours) == sorted(printed)
