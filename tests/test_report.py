"""The report: sentences that follow the numbers, and a page that needs nothing beside itself."""

import re

import pandas as pd
import pytest

from form_invariance import schemas
from form_invariance.report import answers, page
from form_invariance.tables_io import write_table
from stub_checkout import ROOT

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
DEMO = ROOT / "results/report.html"


def interventions(circuit, random):
    """An interventions table in which the circuit and the random control have these values everywhere."""
    rows = [
        {
            "intervention": kind,
            "positions": "all",
            "neurons": neurons,
            "faithfulness_mean": value,
            "accuracy": value,
        }
        for kind in ("keep_only", "knockout")
        for neurons, value in (("circuit", circuit), ("random", random))
    ]
    empty = {name: 0 if column.type == "int64" else 0.0 for name, column in schemas.INTERVENTIONS.columns.items()}
    empty["centered"] = True
    table = pd.DataFrame([{**empty, **row, "k": 100} for row in rows])
    return table[list(schemas.INTERVENTIONS.columns)]


@pytest.fixture
def results(tmp_path):
    return answers.Results(tmp_path / "m", ["symbolic", "word"], ["addition"], 100)


@pytest.mark.parametrize(
    ("values", "kept", "better", "worse"),
    [
        ([(0.9, 0.1), (0.7, 0.3)], "80%", "in all 2", "in none of 2"),
        ([(0, 0.5), (0.5, 0.1)], "25%", "in 1 of 2", "in 1 of 2"),
    ],
)
def test_sentences_follow_the_numbers(results, values, kept, better, worse):
    for name, (circuit, random) in zip(results.formats, values, strict=True):
        path = results.folder / name / "addition/interventions.parquet"
        write_table(interventions(circuit, random), path, schemas.INTERVENTIONS, {})
    keep, knock = answers.sufficient(results), answers.necessary(results)
    assert f"keep {kept} of what" in keep.sentence
    assert keep.sentence.endswith(f"The circuit is better {better} cells.")
    assert knock.sentence.endswith(f"The circuit's loss is larger {worse} cells.")
    assert len(keep.table) == 2


def test_no_audit_where_not_every_neuron_was_patched(results):
    assert answers.trustworthy(results) is None


def test_the_page_needs_nothing_beside_itself(tmp_path):
    for name in ("summary", "prompt_formats", "m/jaccard"):
        path = tmp_path / "figures" / f"{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SVG)
    nasty = answers.Answer(
        "Is 1 < 2?", "<script>alert(1)</script>", pd.DataFrame({"x": [0.25, None]}), ("jaccard",)
    )
    html = page.render({"m": [nasty]}, tmp_path, "formats: '<b>'")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "formats: &#39;&lt;b&gt;&#39;" in html
    assert html.count("data:image/svg+xml;base64,") == 3
    assert set(re.findall(r'href="([^"]*)"', html)) == {"#m", "#compared", "#paper", "#methods"}
    assert not re.findall(r'src="(?!data:)', html)


@pytest.mark.skipif(not DEMO.exists(), reason="needs the demo's results (make demo)")
def test_the_demos_report():
    html = DEMO.read_text()
    assert len(html) < 25e6
    assert html.count("<h3>") == 2 * 10 + 2
    assert not re.findall(r'src="(?!data:)', html)
