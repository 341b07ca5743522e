"""The paper's tables from small inputs, and the paper's numbers next to ours."""

import numpy as np
import pandas as pd
import pytest
from example_tables import crossed, filled

from form_invariance.paper import tables
from form_invariance.paper.tables import read_numbers
from form_invariance.stages.agreement.compute import operator_tables
from form_invariance.stages.census.table import CENSUS
from form_invariance.stages.heuristics.table import HEURISTICS
from form_invariance.stages.probe.table import PROBE

SOURCES = {"big": "meta-llama/Meta-Llama-3-8B", "own": "embedded:embedded-shared"}
FORMATS = ("symbolic", "code", "word")


def joined(tables, *keys):
    """One table with the columns of its keys."""
    frames = [table.assign(**dict(zip(keys, key, strict=True))) for key, table in tables.items()]
    return pd.concat(frames, ignore_index=True)


def heuristics(seed):
    rng = np.random.default_rng(seed)
    families = {"result_0mod2": "result modulo", "op1_range_0_10": "operand range"}
    drawn = {"mode": "reference", "neurons": "shared", "activations": "observed", "layer": 3}
    scores = {"score": 0.8, "base_rate": 0.5, "lift": 1.6}
    table = crossed(HEURISTICS, **drawn, neuron=range(12), heuristic=[*families], **scores)
    return table.assign(family=table["heuristic"].map(families), label=rng.random(len(table)) < 0.7)


def probe_table(trained, accuracies, operators=("all", "addition")):
    """Probes of one training set, accuracy by layer at the last token; one position before it is better."""
    places = {"operator": operators, "layer": range(len(accuracies)), "position": (0, 1), "token": "="}
    counts = {"train_prompts": 80, "test_prompts": 20, "answers": 57}
    rates = {"low": 0.0, "high": 1.0, "reachable": 1.0, "majority": 0.1, "shuffled": 0.0}
    table = crossed(PROBE, trained=trained, tested=trained, **places, **counts, **rates)
    return table.assign(accuracy=np.array(accuracies)[table["layer"]] + 0.01 * table["position"])


def probe_tables():
    together = [probe_table("symbolic+code+word", [0.6, 0.7, 0.6]), probe_table("code", [0.9, 0.9, 0.9])]
    return {
        (model, folder): table
        for model in SOURCES
        for folder, table in {
            "symbolic": probe_table("symbolic", [0.2, 0.5, 0.51, 0.8, 0.8]),
            "code": probe_table("code", [0.2, 0.3]),
            "all": pd.concat(together, ignore_index=True),
        }.items()
    }


@pytest.fixture
def inputs():
    shared = pd.DataFrame({"neurons": "shared", "layer": 3, "neuron": range(12)})
    cells, agreements, labelled, census = {}, {}, {}, {}
    for model in SOURCES:
        for operator in ("addition", "multiplication"):
            found = {name: heuristics(len(cells) + place) for place, name in enumerate(FORMATS)}
            cells |= {(model, name, operator): table for name, table in found.items()}
            agreements[model, operator], labelled[model, operator] = operator_tables(
                found, shared, 50, 0, operator
            )
            rows = [(True, True), (True, False), (True, True), (False, False)]
            census |= {(model, name, operator): filled(CENSUS, rows, "uniform correct") for name in FORMATS}
    return (
        joined(cells, "model", "format", "operator"),
        joined(agreements, "model", "operator"),
        joined(labelled, "model", "operator"),
        joined(census, "model", "format", "operator"),
    )


def test_the_papers_numbers_are_shown_for_its_models_alone(inputs):
    cells, agreements, labelled, census = inputs
    numbers = read_numbers().set_index(["table", "model", "format", "operator", "family", "column"])["value"]
    rows = tables.agreement(agreements, labelled, SOURCES).set_index(["model", "mode", "operator"])
    row = rows.loc[("big", "reference", "addition")]
    assert (
        row["exact % paper"]
        == numbers["tab:app_detailed_heuristics", "Llama-3-8B", "", "addition", "", "exact_percent"]
    )
    assert row["exact % difference"] == pytest.approx(row["exact %"] - 53.9)
    assert np.isnan(rows.loc[("own", "reference", "addition"), "exact % paper"])
    table = agreements.query("model == 'big' and operator == 'addition'")
    wanted = {"mode": "reference", "activations": "observed", "over": "all", "scope": "all", "statistic": "exact"}
    own = table[(table[list(wanted)] == pd.Series(wanted)).all(axis=1)]
    assert row["exact %"] == 100 * own["observed"].iloc[0]
    assert row["labelled"] == row["in 3 formats"]
    summary = tables.summary(rows.reset_index(), SOURCES).set_index(["model", "mode", "operator"])
    both = rows.loc["big"].loc["reference"]["pair Jaccard"]
    assert summary.loc[("big", "reference", "average"), "pair Jaccard"] == pytest.approx(both.mean())
    assert summary.loc[("big", "reference", "average"), "pair Jaccard paper"] == 0.75
    counts = tables.census(census, SOURCES).set_index(["model", "format", "operator"])
    assert counts.loc[("big", "word", "multiplication"), "accuracy % paper"] == 65.3
    assert np.isnan(counts.loc[("big", "word", "addition"), "accuracy % paper"])
    assert counts["pairs"].eq(3).all()
    assert counts["correct"].eq(2).all()
    significance = tables.significance(agreements, SOURCES)
    assert significance.query("model == 'big' and operator == 'addition'")["exact null paper"].eq(0.052).all()
    families = tables.families(cells, SOURCES).set_index(["model", "operator", "family", "format"])
    assert families.loc[("big", "addition", "result modulo", "code"), "labels paper"] == 606
    label = cells.query("model == 'big' and format == 'code' and operator == 'addition' and label")
    label = label[label["family"] == "result modulo"]
    assert families.loc[("big", "addition", "result modulo", "code"), "labels"] == len(label)


def test_peak_and_onset_of_the_probes():
    rows = tables.probe(joined(probe_tables(), "model", "format"), SOURCES).set_index(
        ["model", "format", "operator"]
    )
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
