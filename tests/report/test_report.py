"""The report: sentences that follow the numbers, and a page that needs no other file."""

import base64
import re
from dataclasses import replace

import pandas as pd
import pytest
from example_tables import filled

from form_invariance.errors import UserError
from form_invariance.experiment.answers import Answer, read_answers, write_answers
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.paper.tables import CAPTIONS
from form_invariance.report import page
from form_invariance.report.verdicts import extents, verdict_rows
from form_invariance.verdicts.summary.answer import QUESTION
from form_invariance.verdicts.summary.table import VERDICTS

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
FIGURES = ["figures/summary.svg", "figures/m/overlap.svg"]
TABLES = [f"tables/{name}.csv" for name in CAPTIONS]
TIMES = "benchmarks/report.tsv"


@pytest.fixture
def finished_files(tmp_path):
    """A folder of results with the files that the page shows as they are."""
    files = dict.fromkeys(FIGURES, SVG) | dict.fromkeys(TABLES, "model,value\nm,1\n")
    files[TIMES] = "s\tmax_rss\n1.5\t200\n"
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


CAPTIONED = Answer(QUESTIONS["same"].label, "Yes.", pd.DataFrame({"x": [1]}), ("overlap",))


def render(folder, answers=None):
    wide = pd.DataFrame({f"a long name of a column {i}": [0.25, None] for i in range(20)})
    wide["<blink>"] = "<blink>"
    wide["compared"] = "what a cell of twelve words says in as few lines as it can"
    nasty = Answer("Is 1 < 2?", "<script>alert(1)</script>", wide, ("overlap",), method="A `<em>` < 1")
    files = (
        {("m", "overlap"): folder / "figures/m/overlap.svg"},
        [folder / "figures/summary.svg"],
        [folder / f"tables/{name}.csv" for name in sorted(CAPTIONS)],
        folder / "benchmarks",
    )
    captions = {"overlap": "How <much> they share.", "summary": "All of it."}
    words = "formats: '<b>'\n" + "long " * 200
    return page.render(answers or {"m": [nasty]}, *files, captions, words)


def test_answers_are_read_as_they_were_written_or_refused(tmp_path):
    path = tmp_path / "answers.json"
    table = pd.DataFrame({"format": ["word", "code"], "share": [0.1 + 0.2, None], "n": [1, 2]})
    given = [Answer("Why?", "So: é", table, ("overlap",)), Answer("No table?", "Yes.", table[:0])]
    write_answers("m", given, path)
    model, (first, second) = read_answers(path)
    assert model == "m"
    assert (first.question, first.sentence, first.figures, len(second.table)) == ("Why?", "So: é", ("overlap",), 0)
    pd.testing.assert_frame_equal(first.table, table)
    for text in ("", '{"model": "m", "answers": [{"question": "?"}]}', "[1]", '{"a": 1}', "\0\xff"):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=rf"^{path} cannot be read as answers \([^\n]*\); delete it"):
            read_answers(path)


@pytest.mark.parametrize("name", [FIGURES[0], TABLES[0], TIMES])
def test_a_broken_file_is_named(finished_files, name):
    path = finished_files / name
    for text in ("", '"cut', "\0\xff"):
        path.write_text(text, encoding="latin-1")
        said = rf"^{path} cannot be read as [^\n]*; delete it and run snakemake again$"
        with pytest.raises(UserError, match=said):
            render(finished_files)


def test_the_page_needs_no_other_file_and_opens_from_disk(open_from_disk, finished_files):
    html = render(finished_files)
    assert "<script" not in html
    assert "<blink" not in html, "a column's name or value is not escaped"
    assert "&lt;script&gt;" in html
    assert re.findall(r"<td>(undefined|nan|None|)</td>", html) == 20 * ["undefined"]
    assert "<p>A <code>&lt;em&gt;</code> &lt; 1</p>" in html
    assert "formats: &#39;&lt;b&gt;&#39;" in html
    assert set(re.findall(r'href="((?!data:|#)[^"]*)"', html)) == {"browser/m.html", "explained.html"}
    assert not re.findall(r'src="(?!data:)', html)
    path = finished_files / "report.html"
    path.write_text(html)
    tab = open_from_disk(path)
    assert tab.eval_on_selector_all("img", "all => all[0] && all.every((i) => i.naturalWidth && i.alt)")
    tab.click("#further > summary")
    for width in (480, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.eval_on_selector_all("details", "all => all.forEach((one) => (one.open = true))")
        heights = tab.eval_on_selector_all("article td", "cells => cells.map((one) => one.offsetHeight)")
        assert heights
        assert max(heights) < 65, "more than three lines"


def verdict(*rows):
    """A model's verdicts from rows (question, difference, low, high, verdict)."""
    operators = "+ -0.10 no; - +0.20 yes"
    found = [(QUESTIONS[name].compared, next(iter(QUESTIONS[name].parts)), *numbers) for name, *numbers in rows]
    alike = {"operator": operators, "k": 50, "at_k": 50, "value": 0.4, "control_value": 0.1}
    alike |= {"cells": 6, "prompts": 1200}
    table = filled(VERDICTS, found, "question metric difference low high verdict", **alike)
    return Answer(QUESTION, "At k = 50: ...", table)


TWO = {
    "m": [verdict(("same", 0.3, 0.1, 0.5, "yes"), ("specific", -0.2, -0.5, 0.1, "undecided"))],
    "n": [verdict(("same", -0.0003, -0.0004, -0.0002, "no"), ("specific", -0.2, None, None, "undefined"))],
    "o": [Answer("Is 1 < 2?", "Yes.", pd.DataFrame({"x": [1]}))],
}


def test_intervals_are_drawn_where_their_numbers_are():
    same, specific = verdict_rows(TWO)
    assert [same["name"], specific["name"]] == [QUESTIONS["same"].label, QUESTIONS["specific"].label]
    first, second, nothing = same["cells"]
    assert first["numbers"] == "0.40 − 0.10 = +0.30 [+0.10, +0.50]"
    assert second["numbers"] == "0.40 − 0.10 = −0.0003 [−0.0004, −0.0002]"
    assert nothing is None
    assert specific["cells"][1]["drawn"] == ""
    own = TWO["n"][0]
    alone = verdict_rows({"n": [replace(own, table=own.table.assign(operator=""))]})
    assert [row["cells"][0] is None for row in alone] == [False, True]
    # A question's axis, of 120 units, goes from its lowest limit to its highest, or to zero.
    for cell, least, largest, limits in (
        (first, -0.0004, 0.5, (0.1, 0.5)),
        (second, -0.0004, 0.5, (-0.0004, -0.0002)),
        (specific["cells"][0], -0.5, 0.1, (-0.5, 0.1)),
    ):
        drawn = re.search(r'"zero" x1="([\d.]+)".*"interval" x1="([\d.]+)" x2="([\d.]+)"', cell["drawn"]).groups()
        expected = [6 + 120 * (value - least) / (largest - least) for value in (0, *limits)]
        assert [float(x) for x in drawn] == pytest.approx(expected, abs=0.051)


def test_the_page_says_what_its_prompts_are_too_few_to_decide():
    (row,) = extents(TWO | {"p": [verdict(("necessary", 0.2, -0.05, 0.45, "undecided"))]})
    assert row.startswith("p: n = 1,200 right answers in 6 cells. Differences below about 0.25 (")


def test_a_ratio_has_a_threshold_and_a_difference_has_none():
    for metric, said in (
        ("probability", "0.40 / 0.10 = 0.90 [0.80, 1.00], needs 0.8"),
        ("probability beyond operator", "0.40 − 0.10 = +0.10 [+0.00, +0.20]"),
    ):
        own = verdict(("exchange", 0.1, 0.0, 0.2, "undecided"))
        (row,) = verdict_rows({"m": [replace(own, table=own.table.assign(metric=metric))]})
        assert row["cells"][0]["numbers"] == said


def test_the_page_opens_with_the_verdicts(finished_files, open_from_disk, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(finished_files, TWO | {"m": [*TWO["m"], CAPTIONED]}))
    tab = open_from_disk(path)
    rows = tab.eval_on_selector_all(".verdicts tbody tr", "rows => rows.map((row) => row.innerText)")
    same, specific = (QUESTIONS[name].label for name in ("same", "specific"))
    assert [re.split(r"[\n\t]", row)[0] for row in rows] == [same, specific]
    assert all(words in rows[1] for words in ("undecided", "nothing to compare", "–", "+ −0.10 no; - +0.20 yes"))
    tab.click(f".verdicts a:text('{same}')")
    assert tab.url.endswith("#same-neurons")
    assert tab.inner_text("h2#same-neurons") == same
    downloaded = tab.get_attribute("#same-neurons + .models a[download]", "href")
    assert base64.b64decode(downloaded.split(",")[1]).decode() == "x\n1\n"
