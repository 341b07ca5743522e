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
    text = PAPER.read_text()
    label = text.index(f"\\label{{{table}}}")
    body = (
        text[text.rindex("\\begin{tabular}", 0, label) : label].split("\\midrule", 1)[1].split("\\bottomrule")[0]
    )
    printed = []
    for line in body.split("\\\\"):
        cells = [re.sub(r"\\[a-z]+\{|\}|\\midrule|\$|\\[!%]", "", cell).strip() for cell in line.split("&")]
        names = [cell.lower() for cell in cells if not re.match(r"(L|\\ge|<)? ?[\d.]", cell)]
        values = [re.sub(r"\\ge|[L<, ]", "", cell) for cell in cells if re.match(r"(L|\\ge|<)? ?[\d.]", cell)]
        printed += [(*names, place, float(value)) for place, value in enumerate(values) if names]
    paper_format = {"symbolic": "arithmetic", "code": "code", "word": "word"}
    numbers = read_numbers().query("table == @table")
    place_of: Counter = Counter()
    ours = []
    for row in numbers.itertuples():
        by_family = table.startswith("tab:dist")
        names = [row.family] if by_family else [row.model.lower(), paper_format.get(row.format, ""), row.operator]
        if table == "tab:heuristic_summary":
            names = [row.operator]
        names = [name for name in names if name]
        ours.append((*names, place_of[tuple(names)], row.value))
        place_of[tuple(names)] += 1
    assert sorted(ours) == sorted(printed)
