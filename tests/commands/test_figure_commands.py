"""The figure commands: the same bytes from every process, faults in one sentence, labels that do not touch."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from form_invariance.drawing import style
from form_invariance.stages.interventions import figure as interventions
from form_invariance.stages.overlap import figure as jaccard
from form_invariance.stages.overlap.table import OVERLAP, RELIABILITY
from form_invariance.stages.transfer import figure as transfer
from form_invariance.statistics import student_factor
from form_invariance.tables.files import write_table


def overlap(ks):
    rows = [(k, -1, "symbolic+code", 3, 9, 0.3, 0.1, 0.2, 0.4) for k in ks]
    return pd.DataFrame(rows, columns=list(OVERLAP.columns))


def reliability(ks):
    rows = [(k, "code", kind, 0.8, 0.7, 0.9) for k in ks for kind in ("parts", "across_parts")]
    return pd.DataFrame(rows, columns=list(RELIABILITY.columns))


def command(folder, overlap_file, reliability_key="addition", seed="0"):
    words = [
        *("figure-jaccard", "--overlap", f"addition={overlap_file}", "--title", "m"),
        *("--reliability", f"{reliability_key}=reliability.parquet"),
        *("--output", *(f"{seed}.{kind}" for kind in ("png", "svg", "pdf"))),
    ]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(
        [sys.executable, "-m", "form_invariance", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(tmp_path):
    write_table(overlap([10, 200]), tmp_path / "overlap.parquet", OVERLAP, {})
    write_table(reliability([10, 200]), tmp_path / "reliability.parquet", RELIABILITY, {})
    return tmp_path


def test_every_process_draws_the_same_bytes(folder):
    for seed in ("1", "2"):
        assert command(folder, "overlap.parquet", seed=seed).returncode == 0
    for kind in ("png", "svg", "pdf"):
        assert (folder / f"1.{kind}").read_bytes() == (folder / f"2.{kind}").read_bytes()


@pytest.mark.parametrize(
    ("file", "key", "sentence"),
    [
        ("reliability.parquet", "addition", "is not a overlap table"),
        ("overlap.parquet", "division", "--reliability lacks a table for 'addition'"),
        ("missing.parquet", "addition", "missing.parquet does not exist"),
    ],
)
def test_faults_are_told_in_one_sentence(folder, file, key, sentence):
    done = command(folder, file, key)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_cell_that_lacks_is_named():
    with pytest.raises(style.UserError, match="--tables lacks a table for 'code/division'"):
        interventions.draw({("code", "addition"): None, ("word", "division"): None}, "knockout", "m")
    with pytest.raises(style.UserError, match="--tables lacks a table for 'addition/b_to_a'"):
        transfer.draw({("addition", "a_to_b"): None, ("division", "b_to_a"): None}, "m")


@pytest.mark.parametrize("ks", [(7,), (10, 20, 50, 100, 200, 500, 1000, 2000), tuple(range(100, 4000, 100))])
@pytest.mark.parametrize("operators", ["a", "abcd"])
def test_labels_of_k_do_not_touch(ks, operators):
    figure = jaccard.draw({o: overlap(ks) for o in operators}, {o: reliability(ks) for o in operators}, "m")
    figure.draw_without_rendering()
    for axes in figure.axes:
        shown = [label for label in axes.get_xticklabels() if label.get_text()]
        boxes = [label.get_window_extent() for label in shown]
        assert shown[-1].get_text() == str(ks[-1])
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_the_interval_over_draws_is_students():
    for count, quantile in {3: 4.3027, 5: 2.7764, 10: 2.2622, 20: 2.0930}.items():
        assert student_factor(count) == pytest.approx(quantile, abs=1e-4)
    assert np.isnan(student_factor(2))
    rows = pd.DataFrame({"k": 10, "faithfulness_ratio": [0.1, 0.2, 0.3, 0.4, 0.5]})
    interval = interventions.over_seeds(rows).loc[10]
    half = 2.776 * np.std(rows["faithfulness_ratio"], ddof=1) / np.sqrt(5)
    assert (interval["high"] - interval["low"]) / 2 == pytest.approx(half, rel=0.003)


def test_every_rate_of_transfer_has_its_denominator_in_the_panel():
    rows = [(10, c, n, 0.5, 0.4, 0.6) for c, n in (("matched", 23), ("harm_matched", 310), ("harm_random", 310))]
    table = pd.DataFrame(rows, columns=["k", "condition", "pairs", "recovered", "low", "high"])
    empty = table.assign(pairs=0, recovered=np.nan, low=np.nan, high=np.nan)
    figure = transfer.draw({("+", "a_to_b"): table, ("-", "a_to_b"): empty}, "m")
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["n = 23, harm n = 310", "no pairs"]
