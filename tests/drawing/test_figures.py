"""Every figure, from the tables of the planted models, has what a reader must find, in the sizes of a paper."""

import os
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path

import kept
import numpy as np
import pandas as pd
import pytest
from example_tables import filled
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from planted_models import PLANTED
from planted_run import OPERATOR, separate

from form_invariance.cli import main
from form_invariance.drawing import figure_command, style
from form_invariance.drawing.figure_command import figure_of
from form_invariance.drawing.lines import line, line_plot
from form_invariance.drawing.neuron_sets import NEURON_SETS, TITLES
from form_invariance.errors import UserError
from form_invariance.experiment.contrasts.questions import QUESTIONS
from form_invariance.experiment.neuron_sets import KINDS
from form_invariance.stages.agreement import figure as agreement
from form_invariance.stages.interventions import figure as interventions
from form_invariance.stages.overlap import figure as overlap
from form_invariance.stages.overlap.table import DIFFERING, INVARIANCE
from form_invariance.stages.transfer import figure as transfer
from form_invariance.tables.inputs import input_paths, read_inputs
from form_invariance.verdicts.summary import figure as summary
from form_invariance.verdicts.summary.lines import verdicts_at

pytestmark = pytest.mark.slow

OPERATORS, KS, SHOWN = ("addition", "subtraction", "multiplication", "division"), (10, 50, 500), 50


def tables_of(run, figures):
    """The tables from which a run would draw each figure, by stage and figure."""
    found = {}
    for _, stage, name, *words in figures:
        start = words.index("--tables") + 1
        files = [run.place / word for word in words[start : words.index("--title")]]
        inputs = figure_of(stage, name)[1]
        found[stage, name] = read_inputs(input_paths(files, inputs, "this figure needs"), inputs)
    return found


def grown(table):
    """The table as if four operators had been asked, at three k."""
    for column, before, values in (("operator", OPERATOR, OPERATORS), ("k", PLANTED, KS)):
        if column in table:
            some = table[table[column] == before]
            rest = table[~table[column].isin([before, *values])]
            table = pd.concat([rest, *(some.assign(**{column: value}) for value in values)])
            table = table.reset_index(drop=True)
    return table


@pytest.fixture(scope="module")
def given(planted, tmp_path_factory):
    """The tables of each figure, of the model that shares its neurons and of the other one."""
    return tuple(tables_of(run, planted.commands("figure")) for run in (planted, separate(tmp_path_factory)))


def test_a_reader_finds_what_is_drawn(given):
    """At the default size a figure has a title, fits on a page of ACL and has the texts that it had before."""
    rows = {}
    for (stage, name), tables in given[0].items():
        if name == "knockout":
            continue  # drawn by the function of keep_only
        figure = figure_of(stage, name)[0]({table: grown(own) for table, own in tables.items()}, "m", SHOWN)
        style._settle(figure)
        width, height = figure.get_size_inches() * 2.54
        assert width == pytest.approx(16, abs=0.01), name
        assert height <= 24.7, name
        panels = [axes for axes in figure.axes if axes.get_visible() and axes.has_data()]
        assert panels, name
        assert figure.get_suptitle(), name
        rows |= {f"{name} {kind}": one for kind, one in kept.of_markup(style.svg(figure)).items()}
    kept.check("figures", rows, share=1e-4)


@pytest.mark.parametrize("name", ["keep_only", "transfer"])
def test_what_shares_no_neuron_has_no_panel(given, name):
    """First one of four operators shares nothing, then none shares anything."""
    key = ("transfer" if name == "transfer" else "interventions", name)
    ((table, own),) = given[0][key].items()
    empty = given[1][key][table]
    some = pd.concat([own.assign(operator=operator) for operator in OPERATORS[:3]] + [empty.assign(operator="-")])
    for whole, titles in ((some, [*OPERATORS[:3], ""]), (empty, [])):
        tables = {table: whole.replace({"k": {PLANTED: SHOWN}}).reset_index(drop=True)}
        figure = figure_of(*key)[0](tables, "m", SHOWN)
        assert [axes.get_title() for axes in figure.axes[:4]] == titles


def test_the_summary_has_every_question_with_its_difference_and_verdict(given):
    """Two models are drawn; one shares no neuron."""
    key = ("summary", "summary")
    both = zip("mn", (tables[key]["verdicts"] for tables in given), strict=True)
    every = pd.concat([verdicts.assign(model=model) for model, verdicts in both], ignore_index=True)
    figure = summary.summary({"verdicts": every}, "all models", PLANTED)
    assert [axes.get_xlabel() for axes in figure.axes[::2]] == [*summary.UNITS]
    names = [
        [name for name, question in QUESTIONS.items() if holds(next(iter(question.parts.values())))]
        for holds in summary.UNITS.values()
    ]
    assert sorted(chain(*names)) == sorted(QUESTIONS), "every question has one unit"
    compared = {
        line for axes in figure.axes[::2] for text in axes.texts for line in text.get_text().split("\nor ")
    }
    for column, model in enumerate("mn"):
        decided = verdicts_at(every[every["model"] == model], PLANTED).set_index("question").reindex([*QUESTIONS])
        metrics = decided["metric"].dropna().items()
        assert {QUESTIONS[question].drawn_for(metric) for question, metric in metrics} <= compared, model
        for axes, rows in zip(
            figure.axes[column::2], (decided.loc[questions] for questions in names), strict=True
        ):
            assert axes.get_xlim() == figure.axes[figure.axes.index(axes) ^ 1].get_xlim(), (
                "one axis for both models"
            )
            above = [text.get_text() for text in axes.texts if text.get_va() == "bottom"]
            said = [text.removesuffix(", tiny") for text in above]
            assert said == rows["verdict"].fillna("undefined").tolist(), model
            markers = [line.get_xydata() for line in axes.lines if line.get_marker() == "o"]
            points = {int(y): x for x, y in np.concatenate([np.empty((0, 2)), *markers]) if not np.isnan(x)}
            assert points == pytest.approx(rows["difference"].reset_index(drop=True).dropna().to_dict()), model
    numbers = [text for axes in figure.axes[1::2] for text in axes.texts if text.get_va() == "top"]
    assert len(numbers) == decided["verdict"].isin(["yes", "no", "mixed", "undecided"]).sum() > 0


def test_a_size_whose_invariance_is_withheld_is_named():
    table = filled(DIFFERING, [(5, np.nan), (9, 0.4)], "k value", operators="all", quantity=INVARIANCE)
    figure = figure_of("overlap", "differing")[0]({"differing": table}, "m", 9)
    assert "not given at k = 5: the ceiling is largely chance" in {one.get_text() for one in figure.axes[1].texts}


OVERLAP = "shared/addition/overlap"
FAULTS = [
    ("jaccard", [OVERLAP], "'jaccard' is not a figure of overlap; it has overlap, "),
    ("overlap", ["code/addition/census"], "census.parquet is a table of census; this figure needs "),
    ("overlap", 2 * [OVERLAP], "are both overlap of planted/addition"),
    ("overlap", ["shared/addition/reliability"], "there is no table of overlap; this figure needs "),
]


@pytest.mark.parametrize(("name", "tables", "sentence"), FAULTS)
def test_a_fault_is_one_sentence(planted, name, tables, sentence, tmp_path, capsys):
    files = [str(planted.folder / f"{table}.parquet") for table in tables]
    words = ["figure", "overlap", name, "--tables", *files, "--title", "m", "--k", "8"]
    assert main([*words, "--output", str(tmp_path / "x.png")]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_figure(tmp_path, monkeypatch):
    def full(figure, to, **_):
        Path(to).write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", full)
    path = tmp_path / "x.png"
    path.write_text("old")
    with pytest.raises(UserError, match=r"x\.png cannot be written: disk full"):
        style.save(Figure(), [path])
    assert [one.read_text() for one in tmp_path.iterdir()] == ["old"]


def test_every_kind_of_neurons_has_a_look_and_a_title():
    assert NEURON_SETS.keys() == TITLES.keys() == KINDS.keys()


def test_neurons_of_two_layers_with_one_number_are_two():
    rows = [("code", activations, layer, 5) for activations in ("observed", "shuffled") for layer in (2, 3)]
    table = pd.DataFrame(rows, columns=["format", "activations", "layer", "neuron"])
    table = table.assign(mode="strict", operator="+", family="range", label=[True, True, True, False])
    whole = pd.DataFrame({"mode": ["strict"], "operator": "+", "activations": "observed", "neurons": 4})
    (row,) = agreement.shares(pd.concat([table, table]), whole, ["code"]).to_dict("records")
    assert (row["observed"], row["shuffled"]) == (0.5, 0.25)


def test_formats_are_drawn_in_the_order_of_their_tables(planted, tmp_path, monkeypatch):
    (draw, inputs), seen, names = figure_of("interventions", "knockout"), [], ["word", "code", "symbolic"]
    drawn = (lambda given, *more: seen.append(given) or draw(given, *more)), inputs
    monkeypatch.setattr(figure_command, "figure_of", lambda *_: drawn)
    tables = [str(planted.cell(name, "interventions.parquet")) for name in names]
    monkeypatch.setenv("MPLBACKEND", "module://of_a_notebook")
    more = ["--title", "m", "--k", str(PLANTED), "--output", str(tmp_path / "a.svg")]
    assert main(["figure", "interventions", "knockout", "--tables", *tables, *more]) == 0
    table = seen[0]["interventions"]
    assert [*table["format"].unique()] == names
    assert table.index.is_unique
    assert os.environ["MPLBACKEND"] == "agg"


def test_the_users_matplotlibrc_changes_no_byte(planted, tmp_path):
    """One file hides lines, another needs LaTeX."""
    table = planted.cell("word", "interventions.parquet")
    drawn = set()
    for name, rc in (
        ("clean", ""),
        ("other", "lines.linestyle: none\naxes.grid: True\n"),
        ("tex", "text.usetex: True\n"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "matplotlibrc").write_text(rc + "savefig.bbox: tight\n" * bool(rc))
        words = ["interventions", "knockout", "--tables", table, "--title=m", "--k=8", f"--output={folder}/a.png"]
        own = os.environ | {"MATPLOTLIBRC": str(folder)}
        done = subprocess.run([sys.executable, "-m", "form_invariance", "figure", *words], env=own, cwd=folder)
        assert done.returncode == 0, name
        drawn.add((folder / "a.png").read_bytes())
    assert len(drawn) == 1


def drawn_lines(looks, names):
    """The pixels of lines that agree."""
    table = pd.DataFrame({"k": [5, 50, 150], "share": 0.5})
    figure, ((axes,),) = style.panels(1, 1, width=2.0, height=1.5)
    line_plot(axes, pd.concat([line(table, name, "share") for name in names]), looks)
    axes.set(ylim=(0, 1))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3] / 255


@pytest.mark.parametrize("looks", [overlap.LOOKS, overlap.DIFFER, interventions.LOOKS, transfer.LOOKS])
def test_of_two_lines_that_agree_both_are_seen(looks):
    alone = {name: drawn_lines(looks, [name]) for name in looks}
    for names in combinations(looks, 2):
        both = drawn_lines(looks, names)
        assert all((abs(both - alone[name]).max(axis=-1) > 0.2).sum() > 20 for name in names), names


def test_a_line_of_one_point_is_seen_with_its_interval():
    table = pd.DataFrame({"k": [5, 50, 50], "line": ["random_effect", "random_effect", "random_variance"]})
    table = table.assign(value=[np.nan, 0.2, 0.6], low=[np.nan, 0.1, np.nan], high=[np.nan, 0.4, np.nan])
    _, ((axes,),) = style.panels(1, 1, width=2.0, height=1.5)
    line_plot(axes, table, interventions.LOOKS)
    points = [item.get_offsets().tolist() for item in axes.collections if isinstance(item, PathCollection)]
    assert points == [[[50, 0.6]], [[50, 0.2]]]
    (bar,) = [item for item in axes.collections if isinstance(item, LineCollection)]
    assert bar.get_segments()[0].tolist() == [[50, 0.1], [50, 0.4]]
