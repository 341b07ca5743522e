"""The report: sentences that follow the numbers, and a page that needs nothing beside itself."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from stub_checkout import ROOT

from form_invariance.errors import UserError
from form_invariance.paper.tables import CAPTIONS
from form_invariance.report import answers, beyond, page
from form_invariance.stages.answers import Answer, Results
from form_invariance.stages.audit.table import AUDIT
from form_invariance.stages.heads.table import HEAD_OVERLAP, HEADS
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.planted.table import PLANTED
from form_invariance.stages.transfer.table import TRANSFER
from form_invariance.tables.files import write_table

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
DEMO = ROOT / "results/report.html"


def interventions(circuit, random):
    """An interventions table in which the circuit and the random control have these values everywhere."""
    rows = [
        {
            "intervention": kind,
            "means": means,
            "positions": "all",
            "neurons": neurons,
            "faithfulness_mean": value / scale,
            "accuracy": value / scale,
        }
        for kind in ("keep_only", "knockout")
        for means, scale in (("format", 1), ("template", 2))
        for neurons, value in (("circuit", circuit), ("random", random))
    ]
    empty = {name: 0 if column.type == "int64" else 0.0 for name, column in INTERVENTIONS.columns.items()}
    empty["centered"] = True
    table = pd.DataFrame([{**empty, **row, "k": 100} for row in rows])
    return table[list(INTERVENTIONS.columns)]


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "m", ["symbolic", "word"], ["addition"], 100)


@pytest.mark.parametrize(
    ("values", "kept", "half", "better", "worse"),
    [
        ([(0.9, 0.1), (0.7, 0.3)], "80%", "40%", "in all 2", "in none of 2"),
        ([(0, 0.5), (0.5, 0.1)], "25%", "12%", "in 1 of 2", "in 1 of 2"),
    ],
)
def test_sentences_follow_the_numbers(results, values, kept, half, better, worse):
    for name, (circuit, random) in zip(results.formats, values, strict=True):
        path = results.folder / name / "addition/interventions.parquet"
        write_table(interventions(circuit, random), path, INTERVENTIONS, {})
    keep, knock = answers.sufficient(results), answers.necessary(results)
    assert f"keep {kept} of what" in keep.sentence
    halved = f"With the means of each template alone in place of the format's, it is {half} ("
    assert f" The circuit is better {better} cells. {halved}" in keep.sentence
    assert f" The circuit's loss is larger {worse} cells. " in knock.sentence
    assert halved in knock.sentence
    assert len(keep.table) == 2


def heads_results(folder, formats, best):
    """Tables of four heads; `best` are ranks by format. Heads 0 and 1 look at the operands, the others at BOS."""
    for name, ranks in zip(formats, best, strict=True):
        rows = [
            (layer, head, rank, 1.0, 0.1, 1.0, *((0.5, 0.25, 0.0) if layer == 0 else (0.0, 0.0, 0.5)))
            for (layer, head), rank in zip([(0, 0), (0, 1), (1, 0), (1, 1)], ranks, strict=True)
        ]
        table = pd.DataFrame(rows, columns=list(HEADS.columns))
        write_table(table, folder / name / "addition/heads.parquet", HEADS, {})
    rows = [
        (layers, ranked, h, "symbolic+word", 1, 2, h / 8, 0.125, low, 0.9, 0.75)
        for layers, ranked in (("all", 4), ("routing", 2))
        for h, low in ((1, 0.0), (2, 0.2))
    ]
    table = pd.DataFrame(rows, columns=list(HEAD_OVERLAP.columns))
    write_table(table, folder / "shared/addition/head_overlap.parquet", HEAD_OVERLAP, {})


@pytest.mark.parametrize(
    ("best", "attention"),
    [
        ([(1, 2, 3, 4), (2, 1, 3, 4)], "pay 75% of their attention to the two operands, the mean head 38%."),
        ([(1, 3, 2, 4), (4, 3, 2, 1)], "pay 0% of their attention to the two operands, the mean head 38%."),
        ([(1, 2, 3, 4), (3, 4, 1, 2)], "(12.5% by chance, ceiling 75.0%)."),
    ],
)
def test_the_heads_sentence_follows_the_numbers(results, best, attention):
    heads_results(results.folder, results.formats, best)
    assert beyond.heads(results) is None
    results = replace(results, stages=frozenset(["heads"]))
    answer = beyond.heads(results)
    assert "any format's best 2, 25.0% are in all formats'" in answer.sentence
    assert "The interval lies above chance in all 1 operators." in answer.sentence
    assert answer.sentence.endswith(attention)
    assert len(answer.table) == 4
    (results.folder / "word/addition/heads.parquet").unlink()
    with pytest.raises(UserError, match=r"word/addition/heads\.parquet does not exist"):
        beyond.heads(results)


def test_the_audits_recall_is_told(results):
    rows = [
        ("symbolic", "addition", -1, 100, candidates, recall, 0.5)
        for candidates, recall in ((50, 0.4), (120, 0.75), (300, 0.995))
    ]
    table = pd.DataFrame(rows, columns=list(AUDIT.columns))
    write_table(table, results.folder / "shared/audit.parquet", AUDIT, {})
    audited = replace(results, stages=frozenset(["audit"]))
    sentence = beyond.trustworthy(audited).sentence
    assert "Of the exact best 100 of a layer, 75% are among the best 120 by attribution; 300 would" in sentence
    assert sentence.endswith("is 0.50.")
    assert beyond.trustworthy(results) is None
    (results.folder / "shared/audit.parquet").unlink()
    with pytest.raises(UserError, match=r"shared/audit\.parquet does not exist"):
        beyond.trustworthy(audited)


def transfer(recovered):
    """A transfer table in which the circuit mends so many of 10 wrong answers, the controls none."""
    empty = {name: 0 if column.type == "int64" else 0.0 for name, column in TRANSFER.columns.items()}
    rows = [
        {**empty, "condition": condition, "recovered": value, "k": 100, "pairs": 10}
        for condition, value in (("matched", recovered), ("random", 0.0), ("mismatched", 0.0))
    ]
    return pd.DataFrame(rows)


def test_the_directions_between_the_formats_are_told_and_no_others(results):
    folder = results.folder / "transfer/addition"
    directions = {"symbolic_to_word": 0.2, "word_to_symbolic": 0.4, "word_to_code": 1.0}
    for direction, recovered in directions.items():
        donor, target = direction.split("_to_")
        table = transfer(recovered).assign(donor=donor, target=target)
        write_table(table, folder / f"{direction}.parquet", TRANSFER, {})
    answer = answers.transferable(results)
    assert "30% become right" in answer.sentence
    assert answer.table[["donor", "target", "matched"]].to_numpy().tolist() == [
        ["symbolic", "word", 0.2],
        ["word", "symbolic", 0.4],
    ]
    (folder / "word_to_symbolic.parquet").unlink()
    with pytest.raises(UserError, match=r"word_to_symbolic\.parquet does not exist"):
        answers.transferable(results)


def planted(deviation):
    """A planted table whose values are off by so much in the shared construction."""
    rows = [
        (circuit, where, -1, measure, 16, expected, expected + deviation * (circuit == "shared"), 1 - expected)
        for circuit in ("shared", "separate")
        for measure, where, expected in (
            ("first_stage", "symbolic", 1.0),
            ("ranking", "symbolic", 1.0),
            ("overlap", "all", float(circuit == "shared")),
            ("keep_only", "symbolic", float(circuit == "shared")),
            ("knockout", "symbolic", float(circuit != "shared")),
            ("transfer", "code_to_word", float(circuit == "shared")),
        )
    ]
    names = ["circuit", "format", "layer", "measure", "of", "expected", "value", "random"]
    return pd.DataFrame(rows, columns=names).assign(low=float("nan"), high=float("nan"))


@pytest.mark.parametrize(
    ("deviation", "phrases"),
    [
        (0.0, ["puts 32 first, attribution 32.", "keep 100% (0% with", "without them 0% (100% with", "is 0.000."]),
        (-0.25, ["puts 28 first, attribution 28.", "keep 75% (0% with", "mend 75% (0% with", "is 0.250."]),
    ],
)
def test_the_ground_truth_follows_the_numbers(tmp_path, deviation, phrases):
    path = tmp_path / "planted.parquet"
    write_table(planted(deviation), path, PLANTED, {})
    answer = beyond.ground_truth(path)
    assert answer.sentence.startswith("Two models were built by hand")
    assert "Of 32 of them" in answer.sentence
    assert "0% of the formats' best are found to be shared" in answer.sentence
    for phrase in phrases:
        assert phrase in answer.sentence, answer.sentence


FIGURES = [f"figures/{name}.svg" for name in ("summary", "prompt_formats", "planted", "m/jaccard")]
TABLES = [f"tables/{name}.csv" for name in CAPTIONS]
TIMES = "benchmarks/report.tsv"


@pytest.fixture
def finished_files(tmp_path):
    """A folder of results with the files that the page shows as they are."""
    files = {
        **dict.fromkeys(FIGURES, SVG),
        **dict.fromkeys(TABLES, "model,value\nm,1\n"),
        TIMES: "s\tmax_rss\n1.5\t200\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def render(folder):
    """The page of a made-up answer."""
    wide = pd.DataFrame({f"a long name of a column {i}": [0.25, None] for i in range(20)})
    nasty = Answer("Is 1 < 2?", "<script>alert(1)</script>", wide, ("jaccard",))
    truth = Answer("True?", "Yes.", pd.DataFrame({"x": [1]}), ("planted",))
    return page.render({"m": [nasty]}, truth, folder, "formats: '<b>'\n" + "long " * 200)


@pytest.fixture
def html(finished_files):
    return render(finished_files)


@pytest.mark.parametrize("name", [*FIGURES, TABLES[0], TIMES])
@pytest.mark.parametrize("text", ["", '"cut', "\0\xff"], ids=["empty", "cut", "bytes"])
def test_a_broken_file_is_named(finished_files, name, text):
    path = finished_files / name
    path.write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=rf"^{path} cannot be read as [^\n]*; delete it and run snakemake again$"):
        render(finished_files)


@pytest.mark.parametrize("name", [*FIGURES, TABLES[0]])
def test_a_missing_file_is_named(finished_files, name):
    path = finished_files / name
    path.unlink()
    with pytest.raises(UserError, match=rf"^{path} does not exist; make it with 'snakemake {path}'$"):
        render(finished_files)


def test_what_is_no_table_of_the_paper_is_not_shown(finished_files):
    (finished_files / "tables/old.csv").write_text("model,value\nm,1\n")
    assert "<summary>old</summary>" not in render(finished_files)


def test_the_page_needs_nothing_beside_itself(html):
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "formats: &#39;&lt;b&gt;&#39;" in html
    assert html.count("data:image/svg+xml;base64,") == 4
    assert set(re.findall(r'href="([^"]*)"', html)) == {
        "#m",
        "#truth",
        "#compared",
        "#paper",
        "#methods",
        "browser/m.html",
    }
    assert not re.findall(r'src="(?!data:)', html)


@pytest.mark.parametrize("width", [480, 1280])
def test_it_opens_from_disk(open_from_disk, html, tmp_path, width):
    path = tmp_path / "report.html"
    path.write_text(html)
    tab = open_from_disk(path)
    tab.set_viewport_size({"width": width, "height": 900})
    assert tab.inner_text("h3 >> nth=0") == "Is 1 < 2?"
    assert tab.eval_on_selector_all("img", "all => all.every((one) => one.naturalWidth > 0 && one.alt)")
    tab.click("summary >> nth=0")
    assert tab.is_visible("table >> nth=0")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.click("nav a:text('Methods')")
    assert tab.url.endswith("#methods")


@pytest.mark.skipif(not DEMO.exists(), reason="needs the demo's results (make demo)")
def test_the_demos_report():
    html = DEMO.read_text()
    assert len(html) < 25e6
    assert html.count("<h3>") == 2 * 11 + 3
    assert not re.findall(r'src="(?!data:)', html)
