"""The command that draws figures: faults in one sentence, labels with room."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled

from form_invariance import cli
from form_invariance.stages.interventions import figure as interventions
from form_invariance.stages.interventions.table import INTERVENTIONS
from form_invariance.stages.overlap.table import OPERATOR_OVERLAP, OVERLAP, RELIABILITY
from form_invariance.stages.transfer import figure as transfer
from form_invariance.statistics import student_factor
from form_invariance.tables.files import write_table
from form_invariance.tables.inputs import input_paths, read_inputs


def overlap(ks):
    values = {"jaccard": 0.3, "chance": 0.1, "low": 0.2, "high": 0.4}
    return crossed(OVERLAP, k=[*ks], layer=-1, formats="symbolic+code", used=True, **values)


def reliability(ks):
    return crossed(
        RELIABILITY, k=[*ks], format="code", kind=["parts", "across_parts"], jaccard=0.8, low=0.7, high=0.9
    )


def operator_overlap(operators, ks):
    """Of every two neighbouring operators."""
    pairs = ["+".join(pair) for pair in pairwise(operators)]
    return crossed(OPERATOR_OVERLAP, format="code", k=[*ks], operators=pairs, jaccard=0.3, chance=0.1)


TABLES = ("overlap.parquet", "reliability.parquet", "operator_overlap.parquet")


def write_tables(folder):
    """The three tables of the figure, an overlap of another operator and of two other models, and a cell alone."""
    for name, model, operator in [("overlap", "m", "+"), ("minus", "m", "-"), ("b", "b", "+"), ("a", "a", "+")]:
        keys = {"model": model, "operator": operator}
        write_table(overlap([10, 200]), folder / f"{name}.parquet", OVERLAP, {}, keys)
    write_table(
        reliability([10, 200]), folder / "reliability.parquet", RELIABILITY, {}, {"model": "m", "operator": "+"}
    )
    others = operator_overlap(["addition", "division"], [10, 200])
    write_table(others, folder / "operator_overlap.parquet", OPERATOR_OVERLAP, {}, {"model": "m"})
    for form, operator in (("code", "+"), ("word", "-")):
        keys = {"model": "m", "format": form, "operator": operator}
        write_table(filled(INTERVENTIONS, []), folder / f"{form}.parquet", INTERVENTIONS, {}, keys)


@pytest.mark.parametrize(
    ("stage", "name", "tables", "sentence"),
    [
        ("overlaps", "overlap", TABLES, "'overlaps' is not a stage with a figure; these are agreement, "),
        ("overlap", "jaccard", TABLES, "'jaccard' is not a figure of overlap; it has differing, overlap"),
        (
            "overlap",
            "overlap",
            ["code.parquet"],
            "code.parquet is a table of interventions; this figure needs ",
        ),
        ("overlap", "overlap", [*TABLES, TABLES[0]], "overlap.parquet is given twice"),
        ("overlap", "overlap", [*TABLES, "lost.parquet"], "lost.parquet does not exist"),
        (
            "overlap",
            "overlap",
            TABLES[1:],
            "there is no table of overlap; this figure needs overlap, ",
        ),
        (
            "interventions",
            "knockout",
            ["code.parquet", "word.parquet"],
            "the table interventions of m/code/- is missing; give one of each",
        ),
    ],
)
def test_a_fault_is_one_sentence(stage, name, tables, sentence, tmp_path, monkeypatch, capsys):
    write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    words = ["figure", stage, name, "--tables", *tables, "--title", "m", "--k", "10", "--output", "x.png"]
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_a_table_that_no_answer_needs_is_refused(tmp_path, capsys):
    write_tables(tmp_path)
    words = ["answers", "--stages", "overlap", "engine_check", "--k", "10", "--output", "x.json"]
    assert cli.main([*words, "--tables", f"{tmp_path}/overlap.parquet", f"{tmp_path}/code.parquet"]) == 2
    assert "code.parquet is a table of interventions; these stages need overlap, " in capsys.readouterr().err


def test_tables_come_as_one_with_their_keys_in_the_order_given(tmp_path):
    write_tables(tmp_path)
    paths, inputs = [tmp_path / f"{name}.parquet" for name in ("b", "overlap", "a")], {"overlap": OVERLAP}
    table = read_inputs(input_paths(paths, inputs, "this figure needs"), inputs)["overlap"]
    assert (table["model"] + table["operator"]).unique().tolist() == ["b+", "m+", "a+"]
    assert len(table) == 3 * len(overlap([10, 200]))
    assert table.index.is_unique


def test_the_interval_over_draws_is_students():
    for count, quantile in {5: 2.7764, 10: 2.2622, 20: 2.0930}.items():
        assert student_factor(count) == pytest.approx(quantile, abs=1e-4)
    assert np.isnan(student_factor(4))
    rows = pd.DataFrame({"k": 10, "faithfulness_ratio": [0.1, 0.2, 0.3, 0.4, 0.5]})
    interval = interventions.over_draws(
        rows.assign(format="code", operator="+", neurons="random"), "faithfulness_ratio"
    ).iloc[0]
    half = 2.776 * np.std(rows["faithfulness_ratio"], ddof=1) / np.sqrt(5)
    assert (interval["high"] - interval["low"]) / 2 == pytest.approx(half, rel=0.003)


def test_every_rate_of_transfer_has_its_denominator_in_the_panel():
    rows = [(10, c, n, 0.5, 0.4, 0.6) for c, n in (("matched", 23), ("mismatched", 23), ("random", 23))]
    rows += [(10, c, 310, 0.5, 0.4, 0.6) for c in ("harm_matched", "harm_random")]
    table = pd.DataFrame(rows, columns=["k", "condition", "pairs", "recovered", "low", "high"])
    table = table.assign(n_neurons=4, donor_answer=0.5)
    rates = dict.fromkeys(["recovered", "low", "high", "donor_answer"], np.nan)
    panels = {"+": table, "-": table.assign(pairs=0, **rates), "*": table.assign(n_neurons=0, **rates)}
    both = [one.assign(operator=operator, donor="a", target="b") for operator, one in panels.items()]
    both += [table.assign(operator=operator, donor="b", target="a") for operator in "-+"]
    figure = transfer.transfer({"transfer": pd.concat(both)}, "m", 10)
    words = ["n = 23, harm n = 310", "no pairs", "n = 23, harm n = 310", "n = 23, harm n = 310"]
    assert [axes.texts[0].get_text() for axes in figure.axes] == words


def test_the_strongest_control_is_drawn_by_its_mean_over_draws():
    rows = [("random", 0, 0.1), ("random", 1, 0.7), ("not_shared", -1, 0.5), ("matched", -1, 0.9)]
    table = pd.DataFrame(rows, columns=["condition", "seed", "recovered"])
    table = table.assign(k=10, low=0.0, high=1.0, pairs=5, n_neurons=1, donor_answer=0.0, operator="+")
    table = pd.concat([table, table.iloc[:1].assign(condition="all_late", k=-1, recovered=0.95)])
    lines = transfer._lines(table.assign(direction="a_to_b")).set_index("line")
    assert lines.loc["control", "value"] == 0.5
    assert (lines.loc["all_late", "k"], lines.loc["all_late", "value"]) == (10, 0.95)
