"""The paper's tables from small inputs, and the paper's numbers next to ours."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled, joined

from form_invariance.paper import tables
from form_invariance.paper.files import write_files
from form_invariance.paper.tables import read_numbers
from form_invariance.stages.agreement.compute import operator_tables
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.probe.table import PROBE

SOURCES = {"big": "meta-llama/Meta-Llama-3-8B", "own": "embedded:embedded-shared"}
FORMATS = ("symbolic", "code", "word")


def heuristics(seed):
    families = {"result_0mod2": "result modulo", "op1_range_0_10": "operand range"}
    drawn = {"mode": "reference", "neurons": "shared", "activations": "observed", "layer": 3}
    scores = {"score": 0.8, "base_rate": 0.5, "lift": 1.6}
    table = crossed(HEURISTICS, **drawn, neuron=range(12), heuristic=[*families], **scores)
    label = np.random.default_rng(seed).random(len(table)) < 0.7
    return table.assign(family=table["heuristic"].map(families), label=label)


def test_the_papers_numbers_are_shown_for_its_models_alone():
    shared = pd.DataFrame({"neurons": "shared", "layer": 3, "neuron": range(12)})
    cells, agreements, labelled, census = {}, {}, {}, {}
    right = filled(CENSUS, [(True, True), (True, False), (True, True), (False, False)], "uniform correct")
    for key in product(SOURCES, ("addition", "multiplication")):
        found = {name: heuristics(len(cells) + place) for place, name in enumerate(FORMATS)}
        agreements[key], labelled[key] = operator_tables(found, shared, 50, 0, key[1])
        for name, table in found.items():
            cells[key[0], name, key[1]], census[key[0], name, key[1]] = table, right
    cells, census = (joined(some, "model", "format", "operator") for some in (cells, census))
    agreements, labelled = (joined(some, "model", "operator") for some in (agreements, labelled))
    numbers = read_numbers().set_index(["table", "model", "format", "operator", "family", "column"])["value"]
    rows = tables.agreement(agreements, labelled, SOURCES).set_index(["model", "mode", "operator"])
    row = rows.loc[("big", "reference", "addition")]
    theirs = numbers["tab:app_detailed_heuristics", "Llama-3-8B", "", "addition", "", "exact_percent"]
    assert (row["exact % paper"], row["exact % difference"]) == (theirs, pytest.approx(row["exact %"] - 53.9))
    assert np.isnan(rows.loc[("own", "reference", "addition"), "exact % paper"])
    wanted = {"model": "big", "operator": "addition", "mode": "reference", "activations": "observed"}
    wanted |= {"over": "all", "scope": "all", "statistic": "exact"}
    own = agreements[(agreements[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    assert row["exact %"] == 100 * own["observed"].iloc[0]
    assert row["labelled"] == row["in 3 formats"]
    summary = tables.summary(rows.reset_index(), SOURCES).set_index(["model", "mode", "operator"])
    average = summary.loc[("big", "reference", "average")]
    assert average["pair Jaccard"] == pytest.approx(rows.loc[("big", "reference"), "pair Jaccard"].mean())
    assert average["pair Jaccard paper"] == 0.75
    counts = tables.census(census, SOURCES).set_index(["model", "format", "operator"])
    assert counts.loc[("big", "word", "multiplication"), "accuracy % paper"] == 65.3
    assert np.isnan(counts.loc[("big", "word", "addition"), "accuracy % paper"])
    assert (counts[["pairs", "correct", "accuracy %"]] == [3, 2, 200 / 3]).all(axis=None)
    significance = tables.significance(agreements, SOURCES)
    assert significance.query("model == 'big' and operator == 'addition'")["exact null paper"].eq(0.052).all()
    # Columns that are in both tables have the same numbers.
    observed = significance.query("activations == 'observed' and null == 'all neurons'")
    observed = observed.set_index(rows.index.names)
    common = [name for name in rows if name in observed]
    assert common[:1] == ["pair Jaccard of labelled in any"]
    pd.testing.assert_frame_equal(rows[common], observed.loc[rows.index, common])
    families = tables.families(cells, SOURCES).set_index(["model", "operator", "family", "format"])
    row = families.loc[("big", "addition", "result modulo", "code")]
    label = cells.query("model == 'big' and format == 'code' and operator == 'addition' and label")
    assert (row["labels"], row["labels paper"]) == (label["family"].eq("result modulo").sum(), 606)


def probe_table(trained, accuracies):
    """Probes of one training set, accuracy by layer at the last token; one position before it is better."""
    places = {"operator": ("all", "addition"), "layer": range(len(accuracies)), "position": (0, 1), "token": "="}
    counts = {"train_prompts": 80, "test_prompts": 20, "answers": 57}
    rates = {"low": 0.0, "high": 1.0, "reachable": 1.0, "majority": 0.1, "shuffled": 0.0}
    table = crossed(PROBE, trained=trained, tested=trained, **places, **counts, **rates)
    return table.assign(accuracy=np.array(accuracies)[table["layer"]] + 0.01 * table["position"])


def test_peak_and_onset_of_the_probes():
    together = [probe_table("symbolic+code+word", [0.6, 0.7, 0.6]), probe_table("code", [0.9, 0.9, 0.9])]
    probes = {
        "symbolic": probe_table("symbolic", [0.2, 0.5, 0.51, 0.8, 0.8]),
        "code": probe_table("code", [0.2, 0.3]),
        "all": pd.concat(together, ignore_index=True),
    }
    every = joined({(model, name): probes[name] for model, name in product(SOURCES, probes)}, "model", "format")
    rows = tables.probe(every, SOURCES).set_index(["model", "format", "operator"])
    row = rows.loc[("big", "symbolic", "all")]
    assert (row["peak accuracy"], row["peak layer"], row["onset layer"]) == (0.8, 3, 2)
    assert (row["prompts"], row["unique answers"], row["majority"]) == (100, 57, 0.1)
    numbers = read_numbers().query("table == 'tab:probe_results' and format == 'symbolic'")
    printed = numbers.query("model == 'Llama-3-8B'").set_index("column")["value"]
    for name in ("peak accuracy", "onset layer", "prompts"):
        theirs = printed[name.replace(" ", "_")]
        assert row[f"{name} paper"] == theirs
        assert row[f"{name} difference"] == pytest.approx(row[name] - theirs)
    assert np.isnan(rows.loc[("big", "code", "all"), "onset layer"])
    assert np.isnan(rows.loc[("big", "symbolic", "addition"), "onset layer paper"])
    assert np.isnan(rows.loc[("own", "symbolic", "all"), "onset layer paper"])
    assert rows.loc[("big", "all formats", "all"), "peak accuracy"] == 0.7


def test_a_table_has_its_markup_escaped_and_three_digits(tmp_path):
    table = pd.DataFrame({"a_b %": ["x & y"], "share": [0.12345], "p": [0.00041], "n": [12.0]})
    write_files(table, tmp_path / "t", "10 % of a_b")
    latex, markdown = ((tmp_path / f"t.{kind}").read_text() for kind in ("tex", "md"))
    assert r"a\_b \% & share & p & n \\" in latex
    assert r"x \& y & 0.123 & 4e-04 & 12 \\" in latex
    assert r"\caption{10 \% of a\_b}" in latex
    assert "| x & y" in markdown
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv"), table)
